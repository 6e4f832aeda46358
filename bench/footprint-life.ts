/** 100 pods of two pools live and end on ten nodes: how often is a node written? And at rest, and after a restart? */
import { setTimeout as delay } from "node:timers/promises";
import type { AuditEntry, AuditFilter } from "@berth/testcluster";
import { writesSince } from "./audit.ts";
import {
  bind,
  create,
  end,
  type FootprintStage,
  type Pool,
  remove,
  report,
  turnOf,
  waitForMarks,
} from "./footprint-stage.ts";
import type { RawRequest } from "./raw-requests.ts";
import type { Figure } from "./report.ts";

export interface LifeOptions {
  readonly pods: number;
  /** Seconds without a change in which nothing may be written. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

const NODES = 10;
const POOLS = ["life-a", "life-b"] as const;
/** A mark that comes and one that goes. */
const PER_PAIR = 2;
/** Whoever writes once too often does so within it. Milliseconds. */
const LATE_MS = 1500;

interface Life {
  readonly name: string;
  readonly pool: Pool;
  readonly node: string;
}

export async function benchLife(stage: FootprintStage, options: LifeOptions): Promise<readonly Figure[]> {
  const { pods, restSeconds, onProgress } = options;
  const { cluster, names } = stage;
  const used = names.slice(0, NODES);
  const pools = await Promise.all(POOLS.map((name) => stage.addPool(name)));
  const lives = livesOf(pods, pools, used);
  const pairs = new Set(lives.map(({ pool, node }) => `${pool.uid} ${node}`)).size;
  const start = await cluster.audit.mark();
  onProgress(`${pods} pods of ${pools.length} pools begin on ${used.length} nodes, one after the other`);
  const rest = await (async () => {
    await using berth = await stage.startBerth();
    for (const life of lives) for (const request of begin(life)) await stage.raw.send(request);
    await waitForMarks(stage, used, pools, berth);
    await delay(LATE_MS);
    const mark = await cluster.audit.mark();
    onProgress(`at rest for ${restSeconds} s`);
    await delay(restSeconds * 1000);
    return writesSince(cluster, mark, berth.userAgent);
  })();
  const restarted = await cluster.audit.mark();
  await using berth = await stage.startBerth();
  await delay(LATE_MS);
  const again = await writesSince(cluster, restarted, berth.userAgent);
  onProgress("the pods end, one after the other");
  for (const life of lives) for (const request of finish(life)) await stage.raw.send(request);
  await waitForMarks(stage, used, [], berth);
  await delay(LATE_MS);
  const patches = await cluster.audit.entriesSince(start, nodePatches(berth.userAgent));
  const all = await writesSince(cluster, start, berth.userAgent);
  return toFigures(options, { pairs, patches, all: all.detail, rest, again });
}

/** So that the pods of a node come one after the other, and those of its second pool after the first. */
function livesOf(count: number, pools: readonly Pool[], nodes: readonly string[]): readonly Life[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `life-${index}`,
    pool: turnOf(pools, Math.floor(index / nodes.length)),
    node: turnOf(nodes, index),
  }));
}

/** What is seen of a pod until it runs. */
function begin({ name, pool, node }: Life): readonly RawRequest[] {
  return [
    create(name, pool),
    bind(name, node),
    report(name, "Pending", false),
    report(name, "Running", false),
    report(name, "Running", true),
  ];
}

/** What is seen of it until it is gone. */
function finish({ name }: Life): readonly RawRequest[] {
  return [end(name), report(name, "Running", false), remove(name)];
}

/**
 * What the controller of agent-substrate's pull request 134 sends for the same, read from its code (`AteletNodeReconciler`):
 * an apply of the node for each event of a pod that has one, whether it changes anything or not. An upper bound: events
 * that come while the node is queued count once. Here a pod has seven: bound, three reports, its end, another report, gone.
 */
const PEER_PER_LIFE = 7;
/** The same code applies each occupied node anew when it starts. */
const PEER_PER_START = 1;

interface Counted {
  readonly pairs: number;
  /** Refused ones among them. */
  readonly patches: readonly AuditEntry[];
  readonly all: string;
  readonly rest: Awaited<ReturnType<typeof writesSince>>;
  readonly again: Awaited<ReturnType<typeof writesSince>>;
}

function toFigures({ pods, restSeconds }: LifeOptions, counted: Counted): readonly Figure[] {
  const { pairs, patches, all, rest, again } = counted;
  const what = `${pods} pods of ${POOLS.length} pools on ${NODES} nodes`;
  const refused = patches.filter(({ code }) => code !== 200).length;
  return [
    {
      id: "footprint-life-patches",
      what: `${what}: patches of nodes in their whole life`,
      value: patches.length,
      unit: "requests",
      budget: PER_PAIR * pairs,
      detail: `${pairs} pairs of pool and node, ${refused} refused; pull request 134: up to ${pods * PEER_PER_LIFE}; all that was written: ${all}`,
    },
    {
      id: "footprint-rest-writes",
      what: `${what}: writes at rest`,
      value: rest.count,
      unit: "requests",
      budget: 0,
      detail: `audit log, ${restSeconds} s${rest.detail && `: ${rest.detail}`}`,
    },
    {
      id: "footprint-restart-writes",
      what: `${what}: writes after a restart`,
      value: again.count,
      unit: "requests",
      budget: 0,
      detail: `audit log, until ${LATE_MS} ms after it was ready${again.detail && `: ${again.detail}`}; pull request 134: ${NODES * PEER_PER_START}`,
    },
  ];
}

function nodePatches(userAgent: string): AuditFilter {
  return { verb: "patch", resource: "nodes", userAgent };
}
