/** A pod is bound: how soon does its node carry the label, while pods come and go elsewhere? */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { Node } from "@berth/kube";
import {
  bind,
  create,
  type FootprintStage,
  isMarkedFor,
  type Pool,
  remove,
  turnOf,
} from "./footprint-stage.ts";
import { watchNodes } from "./node-sight.ts";
import type { MeasuredProcess } from "./process.ts";
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
/** One is bound so often. Milliseconds. */
const BOUND_EVERY_MS = 150;
/** Pods of another pool that come, and as many that go, a second. */
const CHURN = 50;
/** What it has gone on for when the first one is bound: a process compiles what it does for the first time. Milliseconds. */
const WARM_UP_MS = 5000;
/** How long each of these lives. Milliseconds. */
const CHURN_LIFE_MS = 2000;
/** No label within it is a failure. Milliseconds. */
const TIMEOUT_MS = 60_000;

export async function benchBound(stage: FootprintStage, options: BoundOptions): Promise<readonly Figure[]> {
  const half = Math.floor(stage.names.length / 2);
  const measured = stage.names.slice(0, Math.min(options.pods, half));
  const others = stage.names.slice(half);
  const [pool, churning] = [await stage.addPool("bound"), await stage.addPool("churn")];
  await using berth = await stage.startBerth();
  const done = new AbortController();
  const signal = AbortSignal.any([berth.ended, done.signal]);
  options.onProgress(`${measured.length} pods are bound beside ${CHURN} a second that come and go`);
  const [latencies, churned, busy] = await Promise.all([
    delay(WARM_UP_MS)
      .then(() => bindAll(stage, pool, measured, signal))
      .catch((cause: unknown) => {
        throw new Error(`not every node was labelled within ${TIMEOUT_MS} ms\n${berth.log}`, { cause });
      })
      .finally(() => done.abort()),
    churnPods(stage, churning, others, signal),
    busyShare(berth, signal),
  ]);
  return [
    {
      id: "footprint-bound-p99",
      what: `pod bound to node labelled, p99 of ${measured.length}, beside ${CHURN} pods a second that come and go`,
      value: quantile(latencies, 0.99),
      unit: "ms",
      ...(options.budgeted && { budget: BUDGET_MS }),
      detail:
        `p50 ${quantile(latencies, 0.5).toFixed(0)} ms, longest ${Math.max(...latencies).toFixed(0)} ms, from the binding sent to the label seen by a ` +
        `watcher; 100 ms of it wait for further changes; ${churned.toFixed(0)} pods a second came, one node after the other; ` +
        `CPU of berth ${(busy * 100).toFixed(0)} % of a core`,
      samples: latencies,
    },
  ];
}

/** @returns how long each of the nodes took, in order. Milliseconds. */
async function bindAll(
  { cluster, raw }: FootprintStage,
  pool: Pool,
  nodes: readonly string[],
  ended: AbortSignal,
): Promise<readonly number[]> {
  await using sight = await watchNodes(cluster.client);
  const isLabelled = (node: Node): boolean => isMarkedFor(node, [pool]);
  const measure = async (name: string, node: string): Promise<number> => {
    await raw.send(create(name, pool));
    const signal = AbortSignal.any([ended, AbortSignal.timeout(TIMEOUT_MS)]);
    const labelled = sight.until(node, isLabelled, signal);
    const [at, { sentAt }] = await Promise.all([labelled, raw.send(bind(name, node))]);
    return at - sentAt;
  };
  // Awaited here: the sight ends with this function.
  return await Promise.all(
    nodes.map(async (node, index) => {
      await delay(index * BOUND_EVERY_MS);
      return measure(`bound-${index}`, node);
    }),
  );
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
