/** Serves WorkerPools on one cluster. It can be switched on and off while it runs. */
import { createObjectController } from "@berth/host";
import type { KubeClient } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  type Controller,
  type Logger,
  type MetricsRegistry,
  type SharedInformers,
} from "@berth/runtime";
import type { EventSink } from "../node/report.ts";
import type { WorkerPoolConfig } from "./deployment.ts";
import { workerPoolRules } from "./reconciler.ts";
import { WorkerPoolWatch } from "./watch.ts";

export interface WorkerPoolsOptions {
  readonly client: Pick<KubeClient, "get" | "create" | "apply" | "patch" | "delete">;
  readonly informers: SharedInformers;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  readonly events?: EventSink;
}

export interface WorkerPools {
  /** For every replica: reads pools and Deployments while it is switched on. */
  readonly watch: Component;
  /** For the leader: writes. */
  readonly controller: Controller;
  /** Can be called at any time. `undefined`, as at first: off, and Berth leaves everything as it is. */
  configure(config: WorkerPoolConfig | undefined): void;
}

export function createWorkerPools(options: WorkerPoolsOptions): WorkerPools {
  const { client, events, ...common } = options;
  let config: WorkerPoolConfig | undefined;
  const watch = new WorkerPoolWatch({
    ...common,
    onPool: (key, initial) =>
      controller.enqueue(key, initial ? { priority: "low", immediate: true } : { priority: "high" }),
  });
  const controller = createObjectController({
    ...common,
    ...workerPoolRules({
      deployments: { get: (key) => watch.deployment(key) },
      isSynced: () => watch.synced,
      client,
      config: () => config,
      clock: options.clock,
    }),
    name: "worker-pools",
    client,
    events,
    objects: { get: (key) => watch.pool(key) },
  });
  return {
    watch,
    controller,
    configure(next) {
      config = next;
      watch.want(next !== undefined);
      watch.enqueueAll();
    },
  };
}
