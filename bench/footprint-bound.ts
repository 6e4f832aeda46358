/**
 * A pod is bound: how soon does its node carry the label, while pods come and go elsewhere? Beside each such pod another one
 * is bound that is no business of Berth, and the benchmark itself labels its node as soon as it sees it: what the server and
 * the machine take in that very moment.
 */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { type Node, type Pod, pods } from "@berth/kube";
import {
  bind,
  create,
  createForeign,
  FOREIGN_LABEL,
  type FootprintStage,
  isMarkedFor,
  NAMESPACE,
  type Pool,
  remove,
  turnOf,
} from "./footprint-stage.ts";
import { type NodeSight, watchNodes } from "./node-sight.ts";
import { type ObjectSight, watchObjects } from "./object-sight.ts";
import type { MeasuredProcess } from "./process.ts";
import type { RawRequest } from "./raw-requests.ts";
import { type Figure, quantile } from "./report.ts";

export interface BoundOptions {
  /** Pods that are measured, each on a node of its own; fewer where there are fewer nodes. */
  readonly pods: number;
  /** The budgets are for this size. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

/** Milliseconds. */
const BUDGET_MS = 250;
/** What the work of Berth itself may add, on a machine of any speed. */
const BUDGET_RATIO = 1.2;
/** One is bound so often. Milliseconds. */
const BOUND_EVERY_MS = 150;
/** Pods of another pool that come, and as many that go, a second. */
const CHURN = 50;
/** What it has gone on for when the first one is bound: a process compiles what it does for the first time. Milliseconds. */
const WARM_UP_MS = 5000;
/** Of the pods that are bound, the first ones, not counted: connections are opened, and code is compiled. */
const WARM_UP = 10;
/** How long each of these lives. Milliseconds. */
const CHURN_LIFE_MS = 2000;
/** No label within it is a failure. Milliseconds. */
const TIMEOUT_MS = 60_000;
/** What the benchmark labels a node with. */
const RAW_LABEL = "bench.test/labelled";
/** The benchmark watches nodes with it alone: those of the churn would keep it busier than Berth. */
const WATCHED_LABEL = "bench.test/watched";
/** Berth waits so long for further changes of a node. Milliseconds. */
const COALESCE_MS = 100;

export async function benchBound(stage: FootprintStage, options: BoundOptions): Promise<readonly Figure[]> {
  const third = Math.floor(stage.names.length / 3);
  const measured = stage.names.slice(0, Math.min(WARM_UP + options.pods, third));
  const beside = stage.names.slice(third, third + measured.length);
  const others = stage.names.slice(2 * third);
  await stage.raw.sendAll([...measured, ...beside].map((node) => labelling(node, WATCHED_LABEL)));
  const [pool, churning] = [await stage.addPool("bound"), await stage.addPool("churn")];
  await using berth = await stage.startBerth();
  const done = new AbortController();
  const signal = AbortSignal.any([berth.ended, done.signal]);
  options.onProgress(`${measured.length - WARM_UP} pods are bound beside ${CHURN} a second that come and go`);
  const [times, churned, busy] = await Promise.all([
    delay(WARM_UP_MS)
      .then(() => bindAll(stage, { pool, measured, beside, ended: signal }))
      .catch((cause: unknown) => {
        throw new Error(`not every node was labelled within ${TIMEOUT_MS} ms\n${berth.log}`, { cause });
      })
      .finally(() => done.abort()),
    churnPods(stage, churning, others, signal),
    busyShare(berth, signal),
  ]);
  const churn =
    `${churned.toFixed(0)} pods a second came, one node after the other; ` +
    `CPU of berth ${(busy * 100).toFixed(0)} % of a core`;
  return toFigures(times, { churn, budgeted: options.budgeted });
}

/** Milliseconds from the binding sent to the label seen, of each pair. */
interface Times {
  readonly berth: readonly number[];
  /** The same by the benchmark, which decides nothing and waits for nothing. */
  readonly raw: readonly number[];
}

function toFigures(
  { berth, raw }: Times,
  { churn, budgeted }: { readonly churn: string; readonly budgeted: boolean },
): readonly Figure[] {
  const beside = `beside ${CHURN} pods a second that come and go`;
  const text = (times: readonly number[]): string =>
    `p50 ${quantile(times, 0.5).toFixed(0)} ms, p99 ${quantile(times, 0.99).toFixed(0)} ms, longest ${Math.max(...times).toFixed(0)} ms`;
  return [
    {
      id: "footprint-bound-p99",
      what: `pod bound to node labelled, p99 of ${berth.length}, ${beside}`,
      value: quantile(berth, 0.99),
      unit: "ms",
      ...(budgeted && { budget: BUDGET_MS }),
      detail: `${text(berth)}, from the binding sent to the label seen by a watcher; ${COALESCE_MS} ms of it wait for further changes; ${churn}`,
      samples: berth,
    },
    {
      id: "footprint-bound-ratio",
      what: `the same / those ${COALESCE_MS} ms and whoever labels the node of a pod as soon as it sees it, in the same moments`,
      value: quantile(berth, 0.99) / (COALESCE_MS + quantile(raw, 0.99)),
      unit: "x",
      ...(budgeted && { budget: BUDGET_RATIO }),
      detail: `without the ${COALESCE_MS} ms: ${text(raw)}; two requests and two watches, and nothing decided`,
    },
  ];
}

interface Bound {
  readonly pool: Pool;
  readonly measured: readonly string[];
  /** Nodes for pods that Berth does not look for, one for each. */
  readonly beside: readonly string[];
  readonly ended: AbortSignal;
}

/** Each pair at the same moment. */
async function bindAll(stage: FootprintStage, { pool, measured, beside, ended }: Bound): Promise<Times> {
  const { client } = stage.cluster;
  await using nodes = await watchNodes(client, WATCHED_LABEL);
  await using bound = await watchObjects<Pod>(client, {
    resource: pods,
    namespace: NAMESPACE,
    labelSelector: FOREIGN_LABEL,
    project: ({ metadata, spec }) => ({ ...(metadata && { metadata }), ...(spec && { spec }) }),
  });
  const sights = { nodes, pods: bound };
  const each = async (node: string, index: number): Promise<readonly [number, number]> => {
    await delay(index * BOUND_EVERY_MS);
    const signal = AbortSignal.any([ended, AbortSignal.timeout(TIMEOUT_MS)]);
    const names = [`bound-${index}`, `beside-${index}`] as const;
    await Promise.all([stage.raw.send(create(names[0], pool)), stage.raw.send(createForeign(names[1]))]);
    return Promise.all([
      labelled(stage, nodes, { pod: names[0], node, pool, signal }),
      labelledRaw(stage, sights, { pod: names[1], node: turnOf(beside, index), signal }),
    ]);
  };
  // Awaited here: the sights end with this function.
  const times = (await Promise.all(measured.map(each))).slice(WARM_UP);
  return { berth: times.map(([first]) => first), raw: times.map(([, second]) => second) };
}

interface Binding {
  readonly pod: string;
  readonly node: string;
  readonly signal: AbortSignal;
}

/** By Berth. Milliseconds from the binding sent to the label seen. */
async function labelled(
  { raw }: FootprintStage,
  sight: NodeSight,
  { pod, node, pool, signal }: Binding & { readonly pool: Pool },
): Promise<number> {
  const seen = sight.until(node, (version: Node) => isMarkedFor(version, [pool]), signal);
  const [at, { sentAt }] = await Promise.all([seen, raw.send(bind(pod, node))]);
  return at - sentAt;
}

/** By the benchmark itself. */
async function labelledRaw(
  { raw }: FootprintStage,
  sights: { readonly nodes: NodeSight; readonly pods: ObjectSight<Pod> },
  { pod, node, signal }: Binding,
): Promise<number> {
  const isLabelled = ({ metadata }: Node): boolean => metadata?.labels?.[RAW_LABEL] !== undefined;
  const label = async (): Promise<void> => {
    await sights.pods.until(pod, ({ spec }) => spec?.nodeName === node, signal);
    await raw.send(labelling(node, RAW_LABEL));
  };
  const seen = sights.nodes.until(node, isLabelled, signal);
  const [at, { sentAt }] = await Promise.all([seen, raw.send(bind(pod, node)), label()]);
  return at - sentAt;
}

function labelling(node: string, label: string): RawRequest {
  const body = { metadata: { labels: { [label]: "true" } } };
  return { method: "PATCH", path: `/api/v1/nodes/${node}`, body };
}

/** CPU time of a process over time, until `signal`. */
async function busyShare(process: MeasuredProcess, signal: AbortSignal): Promise<number> {
  const [before, startedAt] = [await process.cpuMs(), performance.now()];
  if (!signal.aborted) await once(signal, "abort");
  return ((await process.cpuMs()) - before) / (performance.now() - startedAt);
}

/** Until `signal`; then all of them go. @returns how many came a second. */
async function churnPods(
  { raw }: FootprintStage,
  pool: Pool,
  nodes: readonly string[],
  signal: AbortSignal,
): Promise<number> {
  const lives: Promise<unknown>[] = [];
  const live = async (name: string, node: string): Promise<void> => {
    await raw.send(create(name, pool, node));
    await delay(CHURN_LIFE_MS);
    await raw.send(remove(name));
  };
  const startedAt = performance.now();
  const sinceStart = (): number => performance.now() - startedAt;
  let made = 0;
  for (; !signal.aborted; made++) {
    const life = live(`churn-${made}`, turnOf(nodes, made));
    // Told of below, when all are waited for.
    life.catch(() => undefined);
    lives.push(life);
    // By the clock: what a timer is late by does not add up.
    await delay(Math.max(0, ((made + 1) * 1000) / CHURN - sinceStart()));
  }
  const rate = (made * 1000) / sinceStart();
  await Promise.all(lives);
  return rate;
}
