/** What Berth reads for WorkerPools, while a document switches them on. */
import { type Concerns, pick, type Reads, type Views } from "@berth/host";
import { type Deployment, deployments, type KubeObject } from "@berth/kube";
import { ownEntry } from "../node/managed-fields.ts";
import { withoutManagers } from "../node/once.ts";
import { controllerOf, groupOf } from "../node/owner-reference.ts";
import type { WorkerPoolConfig } from "./deployment.ts";
import { poolNameOf, WORKER_POOL_FIELD_MANAGER, WORKER_POOL_GROUP } from "./keys.ts";
import { type WorkerPool, workerPools } from "./resource.ts";

interface Objects {
  readonly pools: WorkerPool;
  readonly deployments: Deployment;
}
export type WorkerPoolViews = Views<Objects, WorkerPoolConfig | undefined>;

/**
 * The API server cannot select these Deployments by a label, so the watch receives every one of the cluster. It keeps
 * only the identity of a Deployment that belongs to no pool. A missing permission is in the log and in the metrics of
 * informers. It is no problem of the process, which also serves other capabilities.
 */
export const workerPoolReads: Reads<Objects, WorkerPoolConfig | undefined> = {
  pools: {
    name: "worker-pools-watch",
    resource: workerPools,
    isMinor: true,
    wanted: (config) => (config === undefined ? [] : [{ project: withoutManagers }]),
  },
  deployments: {
    name: "worker-pool-deployments",
    resource: deployments,
    isMinor: true,
    wanted: (config) => (config === undefined ? [] : [{ project: slimDeployment }]),
  },
};

/** The pools to check. */
export const workerPoolConcerns: Concerns<Objects, WorkerPool> = {
  pools: ({ object }) => [object],
  deployments(change, { pools }) {
    const states = change.type === "updated" ? [change.old, change.object] : [change.object];
    const { namespace, name = "" } = change.object.metadata ?? {};
    const names = [...states.map(controllingPool), poolNameOf(name)].filter((it) => it !== undefined);
    return [...new Set(names)].flatMap((it) => pools.find(it, namespace) ?? []);
  },
};

/** The pool that controls the object; `undefined`: none does. */
function controllingPool({ metadata }: KubeObject): string | undefined {
  const controller = controllerOf(metadata ?? {});
  if (controller === undefined) return undefined;
  const { apiVersion, kind, name } = controller;
  return kind === workerPools.kind && groupOf(apiVersion) === WORKER_POOL_GROUP ? name : undefined;
}

/** Keeps the fields that the decision reads. Of a Deployment that no pool controls it keeps only the identity. */
function slimDeployment(deployment: Deployment): Deployment {
  const { metadata = {}, spec, status } = deployment;
  const identity = pick(metadata, ["name", "namespace", "uid", "resourceVersion", "deletionTimestamp"]);
  if (controllingPool(deployment) === undefined) return { metadata: identity };
  const entry = ownEntry(metadata.managedFields ?? [], WORKER_POOL_FIELD_MANAGER);
  return {
    metadata: {
      ...identity,
      ...pick(metadata, ["generation", "ownerReferences"]),
      ...(entry && { managedFields: [pick(entry, ["manager", "operation", "fieldsV1"])] }),
    },
    ...(spec && { spec }),
    ...(status && { status: pick(status, ["replicas"]) }),
  };
}
