/** `WorkerPool` as the API server serves it: resource, status, scale and how kubectl shows it. */
import type { CustomKind } from "@berth/host";
import { defineResource, type KubeObject, type ObjectMeta, type Resource } from "@berth/kube";
import { type WorkerPoolSpec, type WorkerPoolStatus, workerPoolSpec, workerPoolStatus } from "./document.ts";
import { WORKER_POOL_GROUP, WORKER_POOL_VERSION } from "./keys.ts";

export interface WorkerPool extends KubeObject {
  readonly metadata?: ObjectMeta;
  readonly spec?: WorkerPoolSpec;
  readonly status?: WorkerPoolStatus;
}

export const workerPools: Resource<WorkerPool> = defineResource({
  group: WORKER_POOL_GROUP,
  version: WORKER_POOL_VERSION,
  plural: "workerpools",
  kind: "WorkerPool",
  namespaced: true,
});

/** Sources of its CRD. The kind belongs to agent-substrate, and is no document of Berth's. */
export const workerPoolKind: CustomKind = {
  resource: workerPools,
  singular: "workerpool",
  shortNames: ["workerpool"],
  categories: [],
  description: "A WorkerPool keeps a number of workers running, by a Deployment that is made from it.",
  spec: workerPoolSpec,
  status: workerPoolStatus,
  scale: { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.replicas" },
  columns: [
    { name: "Desired", type: "integer", jsonPath: ".spec.replicas" },
    { name: "Replicas", type: "integer", jsonPath: ".status.replicas" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
};

/** A pool that was read from a server. */
export interface StoredPool {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly spec: WorkerPoolSpec;
}

/** `undefined` for a pool that never was stored. Assumes that the spec is valid: see `workerPoolSpec`. */
export function toStoredPool({ metadata, spec }: WorkerPool): StoredPool | undefined {
  const { name, namespace, uid } = metadata ?? {};
  if (name === undefined || namespace === undefined || uid === undefined || spec === undefined) {
    return undefined;
  }
  return { name, namespace, uid, spec };
}
