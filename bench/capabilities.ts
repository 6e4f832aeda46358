/** Every capability at once on a cluster at rest: what Berth holds, beside five Go controllers with a cache each. */
import { setTimeout as delay } from "node:timers/promises";
import { daemonSets } from "@berth/kube";
import { originalFootprint, originalGate } from "@berth/placement";
import { eventually } from "@berth/testcluster";
import { writesSince } from "./audit.ts";
import { DEVICE, furnish, POLICY } from "./deschedule-stage.ts";
import { create, FOOTPRINT, type FootprintStage, turnOf } from "./footprint-stage.ts";
import { agentOn, agentSet, gateDocument, says } from "./gate-stage.ts";
import { countText, type Held, holdSynced, holdTwice, MB, residentText, type Synced } from "./held-memory.ts";
import { type PeerArgs, peerProgram } from "./peer.ts";
import type { Figure } from "./report.ts";

export interface CapabilitiesOptions {
  /** All of them together. */
  readonly pods: number;
  readonly peer: string;
  /** Resident memory is read this long after the last cache was filled. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

const POOLS = 5;
/** Of so many pods one belongs to a pool. */
const ONE_IN_POOL = 30;
/** Berth has nothing left to write once it wrote nothing for so long. */
const QUIET_MS = 10_000;
const TIMEOUT_MS = 300_000;

/** One document for each capability about nodes. */
const DOCUMENTS: readonly object[] = [
  document("LabelRule", {
    match: { all: [{ key: DEVICE, operator: "Exists" }] },
    labels: [{ key: "bench.example/accelerated", value: "true" }],
  }),
  gateDocument(),
  document("ArchitecturePolicy", { mode: "Both" }),
  FOOTPRINT,
  POLICY,
];

/** What a careful Go controller keeps for the same work beside the nodes, which each of the five keeps. */
const CONTROLLERS: Readonly<Record<string, Partial<PeerArgs>>> = {
  labels: {},
  gates: {
    pods: true,
    podLabels: Object.entries(originalGate.podLabels).join().replace(",", "="),
    podFields: "metadata.namespace=kube-system",
    also: ["daemonsets"],
  },
  architecture: {
    pods: true,
    podFields: "spec.nodeName=,status.phase=Pending",
    also: ["daemonsets", "namespaces"],
  },
  footprints: { pods: true, podLabels: originalFootprint.podLabel, also: ["namespaces"] },
  descheduling: { pods: true, also: ["namespaces"] },
};

export async function benchCapabilities(
  stage: FootprintStage,
  options: CapabilitiesOptions,
): Promise<readonly Figure[]> {
  const { pods, peer, restSeconds, onProgress } = options;
  onProgress(`creating ${pods} pods`);
  await addPods(stage, pods);
  const start = (): ReturnType<typeof startAll> => startAll(stage);
  onProgress("Berth writes what is left to write");
  await settle(stage);
  onProgress("Berth at rest with every capability");
  const berth = await holdTwice({ cluster: stage.cluster, start, restSeconds });
  const go = new Map<string, Synced>();
  for (const [name, keeps] of Object.entries(CONTROLLERS)) {
    onProgress(`the Go controller of ${name}`);
    // No node has this device: it writes nothing.
    const args = { kubeconfig: stage.kubeconfig, device: "bench.example/none", label: "bench.example/none" };
    go.set(name, await holdSynced(peerProgram(peer, { ...args, ...keeps }), restSeconds));
  }
  return toFigures(stage, pods, { berth, go });
}

/** An agent on each node, whose gate is gone already; some pods of pools; all others are large and ask for a label. */
async function addPods(stage: FootprintStage, count: number): Promise<void> {
  const { cluster, raw, names } = stage;
  const { metadata } = await cluster.client.create(daemonSets, agentSet());
  const uid = metadata?.uid ?? "";
  const inPools = Math.floor(count / ONE_IN_POOL);
  await furnish(stage, { pods: Math.max(1, count - names.length - inPools), moved: 0 });
  await raw.sendAll(names.map((node) => agentOn(node, uid)));
  await raw.sendAll(names.map((node) => says(node, true)));
  const pools = await Promise.all(Array.from({ length: POOLS }, (_, at) => stage.addPool(`pool-${at}`)));
  await raw.sendAll(
    Array.from({ length: inPools }, (_, at) => create(`worker-${at}`, turnOf(pools, at), turnOf(names, at))),
  );
}

/** Berth with all documents, once its caches of pods are filled. It is ready before that. */
async function startAll(stage: FootprintStage): ReturnType<FootprintStage["startBerth"]> {
  await using owned = new AsyncDisposableStack();
  const berth = owned.use(await stage.startBerth(DOCUMENTS));
  await eventually(
    async () => {
      berth.ended.throwIfAborted();
      const exposed = await (await fetch(`${berth.metricsUrl}/metrics`)).text();
      const synced = [...exposed.matchAll(/^berth_informer_synced\{.*="pods".*\} ([01])$/gm)].map(
        ([, value]) => value,
      );
      if (synced.length === 0 || synced.includes("0")) throw new Error(`not synced\n${berth.log}`);
    },
    { timeoutMs: TIMEOUT_MS },
  );
  owned.move();
  return berth;
}

async function settle(stage: FootprintStage): Promise<void> {
  await using berth = await startAll(stage);
  const deadline = performance.now() + TIMEOUT_MS;
  for (let written = 1; written > 0; ) {
    const mark = await stage.cluster.audit.mark();
    await delay(QUIET_MS);
    berth.ended.throwIfAborted();
    written = (await writesSince(stage.cluster, mark, berth.userAgent)).count;
    if (performance.now() > deadline) throw new Error(`Berth still writes\n${berth.log}`);
  }
}

function document(kind: string, spec: object): object {
  return { apiVersion: "berth.dev/v1alpha1", kind, metadata: { name: "bench" }, spec };
}

/** Of all capabilities together. */
const GO_BUDGET = 0.25;
const WATCHES_BUDGET = 2;

function toFigures(
  { names }: FootprintStage,
  pods: number,
  { berth, go }: { readonly berth: Held; readonly go: ReadonlyMap<string, Synced> },
): readonly Figure[] {
  const what = `every capability, ${names.length} nodes, ${pods} pods`;
  const sum = (field: "resident" | "least"): number =>
    [...go.values()].reduce((all, it) => all + it[field], 0);
  const each = (field: "resident" | "least"): string =>
    [...go].map(([name, held]) => `${name} ${(held[field] / MB).toFixed(0)}`).join(", ");
  const watches = berth.asked.filter((request) => request.startsWith("watch"));
  return [
    {
      id: "capabilities-memory",
      what: `${what}: resident`,
      value: berth.resident / MB,
      unit: "MB",
      detail: `${berth.pods} pods in its caches; the lesser of two runs`,
    },
    {
      id: "capabilities-memory-vs-go",
      what: `${what}: resident, berth / five Go controllers`,
      value: berth.resident / sum("resident"),
      unit: "x",
      budget: GO_BUDGET,
      detail: `${residentText(berth)}; Go ${(sum("resident") / MB).toFixed(0)} MB: ${each("resident")}`,
    },
    {
      id: "capabilities-memory-vs-go-collected",
      what: `${what}: the same, Go after a forced collection`,
      value: berth.resident / sum("least"),
      unit: "x",
      detail: `Go ${(sum("least") / MB).toFixed(0)} MB: ${each("least")}`,
    },
    {
      id: "capabilities-pod-watches",
      what: `${what}: watches of pods`,
      value: watches.length,
      unit: "requests",
      budget: WATCHES_BUDGET,
      detail: countText(watches),
    },
  ];
}
