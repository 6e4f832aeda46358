/**
 * Nodes lose the device one after the other: how long after the end of `for` does the server receive the eviction? Beside
 * each such pod the benchmark evicts another one that is no business of Berth, by a timer of its own: what timers, the server
 * and the machine take in that very moment. It plays the kubelet and the controller of these pods.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Pod, pods } from "@berth/kube";
import type { AuditMark } from "@berth/testcluster";
import { receivedAt } from "./audit.ts";
import { DEVICE, evict, FOR_MS, type Furnished, labelNode, MOVING, moving } from "./deschedule-stage.ts";
import { type FootprintStage, NAMESPACE, remove, turnOf } from "./footprint-stage.ts";
import { type ObjectSight, watchObjects } from "./object-sight.ts";
import type { MeasuredProcess } from "./process.ts";
import { type Figure, quantile } from "./report.ts";

export interface EvictionOptions {
  readonly furnished: Furnished;
  /** Before Berth was started. */
  readonly started: AuditMark;
  /** The budgets are for this size. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

/** Milliseconds. */
const BUDGET_MS = 100;
/** A node loses the device so often. Milliseconds. */
const EVERY_MS = 50;
/** The first ones are not counted: connections are opened, and code is compiled. */
const WARM_UP = 10;
/** No eviction and no replacement within it is a failure. Milliseconds. */
const TIMEOUT_MS = 120_000;

export async function benchEvictions(
  stage: FootprintStage,
  berth: MeasuredProcess,
  { furnished, started, budgeted, onProgress }: EvictionOptions,
): Promise<readonly Figure[]> {
  const { cluster, raw } = stage;
  const { losing } = furnished;
  await addPairs(stage, furnished);
  const synced = await readsSince(stage, berth, started);
  const mark = await cluster.audit.mark();
  onProgress(`${losing.length} nodes lose the device, one every ${EVERY_MS} ms`);
  const dueAts = await loseAll(stage, berth, furnished).catch((cause: unknown) => {
    throw new Error(`not every pod moved within ${TIMEOUT_MS} ms\n${berth.log}`, { cause });
  });
  const patches = { verb: "patch", resource: "nodes", userAgent: raw.userAgent };
  const lostAt = new Map(
    (await cluster.audit.entriesSince(mark, patches)).map((one) => [one.name, receivedAt(one)]),
  );
  const evictions = { verb: "create", resource: "pods", subresource: "eviction", code: 201 };
  const evictedAt = async (userAgent: string): Promise<ReadonlyMap<string, number>> => {
    const entries = await cluster.audit.entriesSince(mark, { ...evictions, userAgent });
    return new Map(entries.map((one) => [one.name, receivedAt(one)]));
  };
  const [byBerth, byBench] = [await evictedAt(berth.userAgent), await evictedAt(raw.userAgent)];
  const late = losing.map(
    (node, index) =>
      (byBerth.get(`moved-${index}`) ?? Number.NaN) - (lostAt.get(node) ?? Number.NaN) - FOR_MS,
  );
  const bare = dueAts.map((dueAt, index) => (byBench.get(`bare-${index}`) ?? Number.NaN) - dueAt);
  const reads = await readsSince(stage, berth, mark);
  const counted = { late: late.slice(WARM_UP), bare: bare.slice(WARM_UP), evicted: byBerth.size };
  return toFigures(counted, { reads, synced, budgeted });
}

/** One pod that asks for the device on each node that loses it, and one beside it that asks for nothing. */
async function addPairs({ raw }: FootprintStage, { losing }: Furnished): Promise<void> {
  const pairs = losing.flatMap((node, index) => [
    moving(`moved-${index}`, { owner: `moved-${index}`, node, asks: true }),
    moving(`bare-${index}`, { owner: `bare-${index}`, node, asks: false }),
  ]);
  await raw.sendAll(pairs.flatMap(([made]) => made ?? []));
  await raw.sendAll(pairs.flatMap(([, reported]) => reported ?? []));
}

/** @returns when each bare eviction was due, ms since the epoch. */
async function loseAll(
  stage: FootprintStage,
  berth: MeasuredProcess,
  { losing, keeping }: Furnished,
): Promise<readonly number[]> {
  await using sight = await watchObjects<Pod>(stage.cluster.client, {
    resource: pods,
    namespace: NAMESPACE,
    labelSelector: MOVING,
    project: ({ metadata }) => ({ ...(metadata && { metadata }) }),
  });
  const signal = AbortSignal.any([berth.ended, AbortSignal.timeout(TIMEOUT_MS)]);
  const each = async (node: string, index: number): Promise<number> => {
    await delay(index * EVERY_MS);
    const [dueAt] = await Promise.all([
      evictBare(stage, `bare-${index}`),
      move(stage, sight, { index, from: node, to: turnOf(keeping, index), signal }),
    ]);
    return dueAt;
  };
  // Awaited here: the sight ends with this function.
  return await Promise.all(losing.map(each));
}

async function evictBare({ raw }: FootprintStage, name: string): Promise<number> {
  const dueAt = Date.now() + FOR_MS;
  await delay(FOR_MS);
  await raw.send(evict(name));
  await raw.send(remove(name));
  return dueAt;
}

interface Move {
  readonly index: number;
  readonly from: string;
  readonly to: string;
  readonly signal: AbortSignal;
}

/** Until its replacement is Ready. */
async function move(
  { raw }: FootprintStage,
  sight: ObjectSight<Pod>,
  { index, from, to, signal }: Move,
): Promise<void> {
  const isEnding = ({ metadata }: Pod): boolean => metadata?.deletionTimestamp !== undefined;
  const ending = sight.until(`moved-${index}`, isEnding, signal);
  await Promise.all([ending, raw.send(labelNode(from, DEVICE, null))]);
  await raw.send(remove(`moved-${index}`));
  const replacement = moving(`replaced-${index}`, { owner: `moved-${index}`, node: to, asks: true });
  for (const request of replacement) await raw.send(request);
}

interface Reads {
  readonly count: number;
  readonly text: string;
}

/** Gets and lists, and watches beside them. */
async function readsSince(
  { cluster }: FootprintStage,
  berth: MeasuredProcess,
  mark: AuditMark,
): Promise<Reads> {
  const tallies = await cluster.audit.tallySince(mark, { userAgent: berth.userAgent });
  return {
    count: tallies.reduce(
      (sum, { verb, count }) => (verb === "get" || verb === "list" ? sum + count : sum),
      0,
    ),
    text: tallies.map(({ count, verb, resource }) => `${count} ${verb} ${resource}`).join(", "),
  };
}

interface Counted {
  /** Milliseconds, of each pod. */
  readonly late: readonly number[];
  readonly bare: readonly number[];
  /** Pods that Berth evicted, those that are not counted included. */
  readonly evicted: number;
}

function toFigures(
  { late, bare, evicted }: Counted,
  { reads, synced, budgeted }: { readonly reads: Reads; readonly synced: Reads; readonly budgeted: boolean },
): readonly Figure[] {
  const text = (times: readonly number[]): string =>
    `p50 ${quantile(times, 0.5).toFixed(1)} ms, p99 ${quantile(times, 0.99).toFixed(1)} ms, longest ${Math.max(...times).toFixed(1)} ms`;
  return [
    {
      id: "deschedule-eviction-p99",
      what: `end of \`for\` to eviction, over a bare eviction in the same moments, p99 of ${late.length}`,
      value: quantile(late, 0.99) - quantile(bare, 0.99),
      unit: "ms",
      ...(budgeted && { budget: BUDGET_MS }),
      detail: `berth ${text(late)}; bare ${text(bare)}; both until the server received the request; the descheduler looks every 300,000 ms`,
      samples: late,
    },
    {
      id: "deschedule-eviction-reads",
      what: `${evicted} evictions: lists and gets`,
      value: reads.count,
      unit: "requests",
      budget: 0,
      detail: `all requests: ${reads.text}; from the start until then: ${synced.text}; the descheduler: 30,000 lists at 90,000 pods (its issue 671)`,
    },
  ];
}
