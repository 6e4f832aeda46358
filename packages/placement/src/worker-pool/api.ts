/** What is asked of the API server for WorkerPools. */
import { type Deployment, deployments, type KubeClient, type ObjectName } from "@berth/kube";
import type { WorkerPoolStatus } from "./document.ts";
import { WORKER_POOL_FIELD_MANAGER } from "./keys.ts";
import { type WorkerPool, workerPools } from "./resource.ts";

/** Each rejects with `ApiError`. */
export interface WorkerPoolApi {
  /** The pool as it is now, not as some cache has it. */
  readonly readPool: (of: ObjectName, signal: AbortSignal) => Promise<WorkerPool>;
  /** Server-side apply of all that the controller owns; fields that others own are taken from them. */
  readonly applyDeployment: (body: Deployment, signal: AbortSignal) => Promise<Deployment>;
  /** A merge patch of the status. */
  readonly patchStatus: (of: ObjectName, patch: StatusChange, signal: AbortSignal) => Promise<WorkerPool>;
}

export interface StatusChange {
  /** Bound to this version: of the status of a custom resource the API server does not compare the uid. */
  readonly metadata: { readonly uid: string; readonly resourceVersion: string };
  readonly status: WorkerPoolStatus;
}

export function createWorkerPoolApi(client: Pick<KubeClient, "get" | "apply" | "patch">): WorkerPoolApi {
  const fieldManager = WORKER_POOL_FIELD_MANAGER;
  return {
    readPool: ({ namespace = "", name }, signal) => client.get(workerPools, { namespace, name }, { signal }),
    applyDeployment: (body, signal) => client.apply(deployments, body, { fieldManager, force: true, signal }),
    patchStatus: ({ namespace = "", name }, body, signal) =>
      client.patch(
        workerPools,
        { namespace, name },
        { type: "merge", body },
        { subresource: "status", fieldManager, signal },
      ),
  };
}
