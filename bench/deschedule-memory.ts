/** What descheduling holds: the indexes of pods by themselves, and all of it in a Berth at rest. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Pod } from "@berth/kube";
import { aPod } from "@berth/testcluster";
import { podIndexes } from "../packages/placement/src/deschedule/reads.ts";
import { ObjectStore } from "../packages/runtime/src/object-store.ts";
import { startSynced } from "./deschedule-stage.ts";
import type { FootprintStage } from "./footprint-stage.ts";
import { holdTwice, MB, residentText } from "./held-memory.ts";
import type { Figure } from "./report.ts";

export interface DescheduleMemoryOptions {
  /** In the cluster. */
  readonly pods: number;
  /** Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

export async function benchDescheduleMemory(
  stage: FootprintStage,
  { pods, restSeconds, onProgress }: DescheduleMemoryOptions,
): Promise<readonly Figure[]> {
  onProgress("memory with and without a policy");
  const common = { cluster: stage.cluster, restSeconds };
  const held = await holdTwice({ ...common, start: () => startSynced(stage) });
  const without = await holdTwice({ ...common, start: () => stage.startBerth([]) });
  const added = held.resident - without.resident;
  return [
    {
      id: "deschedule-memory",
      what: `${stage.names.length} nodes, ${pods} pods: resident memory that a policy adds`,
      value: added / MB,
      unit: "MB",
      detail: `${residentText(held)} with it, ${held.pods} pods in caches; ${residentText(without)} without; ${(added / pods).toFixed(0)} bytes a pod; the lesser of two runs each`,
    },
    indexFigure(),
  ];
}

/** Bytes for each pod and each key that it asks for. */
const INDEX_BUDGET = 60;
const PODS = 30_000;
const NODES = 5000;
const REPLICAS = 10;
const NAMESPACES = 100;

function indexFigure(): Figure {
  const indexes = Object.entries(podIndexes);
  // What is measured first also pays for code that is compiled.
  heapOf(podIndexes);
  const without = heapOf({});
  const each = (bytes: number): number => (bytes - without) / PODS;
  const single = indexes.map(([name, index]) => `${name} ${each(heapOf({ [name]: index })).toFixed(0)}`);
  return {
    id: "deschedule-index-bytes",
    what: "indexes of pods: heap for each pod and key",
    value: each(heapOf(podIndexes)),
    unit: "B",
    budget: INDEX_BUDGET,
    detail: `a store of ${PODS} pods with all indexes, less one without, in this process after a collection; a pod asks for one key; by themselves: ${single.join(", ")}`,
  };
}

/** Bytes of heap that a store of all these pods takes, the pods themselves not counted. */
function heapOf(indexes: typeof podIndexes | Record<string, never>): number {
  const pods = Array.from({ length: PODS }, (_, index) => podNumber(index));
  const before = heapUsed();
  const store = new ObjectStore<Pod>(indexes);
  for (const pod of pods) store.upsert(pod);
  const bytes = heapUsed() - before;
  // Both are alive until here.
  if (store.size !== pods.length) throw new Error(`the store holds ${store.size} of ${pods.length} pods`);
  return bytes;
}

/** As it comes from the wire: it shares no text with another one. */
function podNumber(index: number): Pod {
  const owner = Math.floor(index / REPLICAS);
  const uid = `1f0c2a54-93d1-4b6e-8c57-${String(owner).padStart(12, "0")}`;
  const pod = aPod(`pod-${index}`)
    .in(`namespace-${owner % NAMESPACES}`)
    .ownedBy("ReplicaSet", `set-${owner}`, uid)
    .selecting({ "bench.example/device": "true" })
    .on(`node-${index % NODES}`)
    .stored({ uid: `pod-uid-${index}`, resourceVersion: `${index}` });
  return JSON.parse(JSON.stringify(pod.build())) as Pod;
}

function heapUsed(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}
