/**
 * Memory of a Berth that works for an hour: nodes, pods and pools come and go under new names all the while, and labels
 * change. Only `--only soak` runs it. Memory that depends on what there was, and not on what there is, shows as growth.
 */
import { setTimeout as delay } from "node:timers/promises";
import { deployments, nodes, replicaSets } from "@berth/kube";
import { workerPools } from "@berth/placement";
import { aNode } from "@berth/testcluster";
import {
  bind,
  create,
  end,
  FOOTPRINT,
  type FootprintStage,
  NAMESPACE,
  type Pool,
  remove,
  report,
} from "./footprint-stage.ts";
import { post } from "./gate-stage.ts";
import { type Figure, median } from "./report.ts";

export interface SoakOptions {
  readonly minutes: number;
  readonly onProgress: (text: string) => void;
}

/** Changes a second, each a pod's whole life and a label. */
const ROUND_MS = 250;
/** Rounds until a node is replaced, and a pool. */
const NODE_EVERY = 4;
const POOL_EVERY = 40;
/** Pods that live at the same time. */
const ALIVE = 50;
const SAMPLE_MS = 5_000;
/** Samples between two lines of progress. */
const SAMPLES_TOLD = 60;
const MB = 1024 * 1024;

const RULE: object = {
  apiVersion: "berth.dev/v1alpha1",
  kind: "LabelRule",
  metadata: { name: "soak" },
  spec: {
    match: { all: [{ key: "bench.test/soak", operator: "In", values: ["1"] }] },
    labels: [{ key: "bench.test/soaked", value: "true" }],
    removalDelay: "0s",
  },
};
const GATE: object = {
  apiVersion: "berth.dev/v1alpha1",
  kind: "StartupGate",
  metadata: { name: "soak" },
  spec: {
    nodeSelector: { matchLabels: { "bench.test/churn": "true" } },
    signals: { annotations: [{ key: "bench.test/ready" }] },
    stableFor: "1s",
  },
};

export async function benchSoak(
  stage: FootprintStage,
  { minutes, onProgress }: SoakOptions,
): Promise<readonly Figure[]> {
  await using berth = await stage.startBerth([FOOTPRINT, RULE, GATE]);
  const endsAt = performance.now() + minutes * 60_000;
  const churn = createChurn(stage);
  const resident: number[] = [];
  const heap: number[] = [];
  let sampleAt = performance.now();
  for (let round = 0; performance.now() < endsAt; round++) {
    berth.ended.throwIfAborted();
    await churn(round);
    await delay(ROUND_MS);
    if (performance.now() < sampleAt) continue;
    sampleAt += SAMPLE_MS;
    resident.push((await berth.memory()).resident / MB);
    heap.push((await heapOf(berth.metricsUrl)) / MB);
    if (heap.length % SAMPLES_TOLD === 0) {
      const [now, live] = [resident.at(-1), Math.min(...heap.slice(-SAMPLES_TOLD))].map((mb) =>
        mb?.toFixed(0),
      );
      onProgress(`${round} rounds, resident ${now} MB, heap after collections ${live} MB`);
    }
  }
  const quarter = Math.max(1, Math.floor(heap.length / 4));
  return [
    {
      id: "soak-growth",
      what: `heap after collections under change, last quarter of ${minutes} min / the quarter before`,
      value: Math.min(...heap.slice(-quarter)) / Math.min(...heap.slice(-2 * quarter, -quarter)),
      unit: "x",
      budget: 1.03,
      detail: `MB by quarter: ${byQuarter(heap, quarter, (samples) => Math.min(...samples))}`,
      samples: heap,
    },
    {
      id: "soak-resident",
      what: "resident memory then, with the garbage that the process has not given back",
      value: median(resident.slice(-quarter)),
      unit: "MB",
      detail: `median by quarter: ${byQuarter(resident, quarter, median)}`,
      samples: resident,
    },
  ];
}

/** What the objects of the process take, bytes. The least of many samples is what a collection leaves. */
async function heapOf(metricsUrl: string): Promise<number> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  const found = /^nodejs_heap_size_used_bytes (\S+)$/m.exec(text)?.[1];
  if (found === undefined) throw new Error(`${metricsUrl}/metrics has no nodejs_heap_size_used_bytes`);
  return Number(found);
}

function byQuarter(
  samples: readonly number[],
  quarter: number,
  of: (samples: readonly number[]) => number,
): string {
  return Array.from({ length: 4 }, (_, index) => of(samples.slice(index * quarter, (index + 1) * quarter)))
    .map((mb) => mb.toFixed(1))
    .join(", ");
}

/** One round of changes. Every name is new. */
function createChurn(stage: FootprintStage): (round: number) => Promise<void> {
  const { client } = stage.cluster;
  let pool: { readonly name: string; readonly owner: Pool } | undefined;
  const alive: string[] = [];
  const replacePool = async (round: number): Promise<Pool> => {
    for (const name of alive.splice(0)) await stage.raw.send(remove(name));
    if (pool !== undefined) {
      const { name } = pool;
      await client.delete(replicaSets, { namespace: NAMESPACE, name: `${name}-set` });
      await client.delete(deployments, { namespace: NAMESPACE, name: `${name}-deployment` });
      await client.delete(workerPools, { namespace: NAMESPACE, name });
    }
    const name = `soak-${round}`;
    const owner = await stage.addPool(name);
    pool = { name, owner };
    return owner;
  };
  return async (round) => {
    const owner = pool === undefined || round % POOL_EVERY === 0 ? await replacePool(round) : pool.owner;
    const node = stage.names[round % stage.names.length] ?? "";
    const name = `soak-${round}`;
    for (const request of [create(name, owner), bind(name, node), report(name, "Running", true)])
      await stage.raw.send(request);
    alive.push(name);
    const oldest = alive.length > ALIVE ? alive.shift() : undefined;
    if (oldest !== undefined)
      for (const request of [end(oldest), remove(oldest)]) await stage.raw.send(request);
    const labels = { "bench.test/soak": `${Math.floor(round / stage.names.length) % 2}` };
    await client.patch(nodes, { name: node }, { type: "merge", body: { metadata: { labels } } });
    if (round % NODE_EVERY === 0) await replaceNode(stage, round / NODE_EVERY);
  };
}

/** A node that is held, let go, and deleted a while later. */
async function replaceNode(stage: FootprintStage, count: number): Promise<void> {
  const { client } = stage.cluster;
  const fresh = aNode(`churn-${count}`).realistic().labelled({ "bench.test/churn": "true" }).build();
  await stage.raw.send(post("/api/v1/nodes", fresh));
  const ready = { metadata: { annotations: { "bench.test/ready": "true" } } };
  if (count >= 10) await client.patch(nodes, { name: `churn-${count - 10}` }, { type: "merge", body: ready });
  if (count >= 20) await client.delete(nodes, { name: `churn-${count - 20}` });
}
