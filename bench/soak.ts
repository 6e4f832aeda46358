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
import type { MeasuredProcess } from "./process.ts";
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
const SAMPLE_MS = 30_000;
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
  const samples: number[] = [];
  let sampleAt = performance.now();
  for (let round = 0; performance.now() < endsAt; round++) {
    berth.ended.throwIfAborted();
    await churn(round);
    await delay(ROUND_MS);
    if (performance.now() < sampleAt) continue;
    sampleAt += SAMPLE_MS;
    samples.push(await residentMb(berth));
    if (samples.length % 10 === 0) onProgress(`${round} rounds, resident ${samples.at(-1)?.toFixed(0)} MB`);
  }
  const quarter = Math.max(1, Math.floor(samples.length / 4));
  const [third, last] = [samples.slice(-2 * quarter, -quarter), samples.slice(-quarter)];
  return [
    {
      id: "soak-growth",
      what: `resident memory under change, last quarter of ${minutes} min / the quarter before`,
      value: median(last) / median(third),
      unit: "x",
      // Half a minute's garbage is a few percent.
      budget: 1.03,
      detail: `MB every ${(quarter * SAMPLE_MS) / 60_000} min: ${curve(samples, quarter)}`,
      samples,
    },
  ];
}

async function residentMb(process: MeasuredProcess): Promise<number> {
  return (await process.memory()).resident / MB;
}

function curve(samples: readonly number[], quarter: number): string {
  return samples
    .filter((_, index) => index % quarter === quarter - 1)
    .map((mb) => mb.toFixed(0))
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
