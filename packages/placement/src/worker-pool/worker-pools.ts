/** Serves WorkerPools on one cluster. It can be switched on and off while it runs. */
import { createObjectController, createViews, type ReadAt } from "@berth/host";
import type { KubeClient } from "@berth/kube";
import { type AddOptions, type Controller, keyOf } from "@berth/runtime";
import type { EventSink } from "../node/report.ts";
import type { WorkerPoolConfig } from "./deployment.ts";
import { type WorkerPoolViews, workerPoolConcerns, workerPoolReads } from "./reads.ts";
import { workerPoolRules } from "./reconciler.ts";
import type { WorkerPool } from "./resource.ts";

export interface WorkerPoolsOptions extends ReadAt {
  readonly client: Pick<KubeClient, "get" | "create" | "apply" | "patch" | "delete">;
  readonly events?: EventSink;
}

export interface WorkerPools {
  /** For every replica: reads pools and Deployments while it is switched on. */
  readonly views: WorkerPoolViews;
  /** For the leader: writes. */
  readonly controller: Controller;
  /** Can be called at any time. `undefined`, as at first: off, and Berth leaves everything as it is. */
  configure(config: WorkerPoolConfig | undefined): void;
}

export function createWorkerPools(options: WorkerPoolsOptions): WorkerPools {
  let config: WorkerPoolConfig | undefined;
  const enqueue = (pools: Iterable<WorkerPool>, how: AddOptions): void => {
    for (const pool of pools) controller.enqueue(keyOf(options.cluster, pool), how);
  };
  const enqueueAll = (): void => {
    if (views.isRead) enqueue(views.pools.list(), { priority: "low", immediate: true });
  };
  const views: WorkerPoolViews = createViews(workerPoolReads, {
    ...options,
    concerns: workerPoolConcerns,
    onKeys: (pools) => enqueue(pools, { priority: "high" }),
    onAll: enqueueAll,
  });
  const controller = createObjectController({
    ...options,
    ...workerPoolRules({
      ...options,
      deployments: views.deployments,
      isSynced: () => views.isRead,
      config: () => config,
    }),
    name: "worker-pools",
    objects: views.pools,
  });
  return {
    views,
    controller,
    configure(next) {
      config = next;
      views.want(next);
      enqueueAll();
    },
  };
}
