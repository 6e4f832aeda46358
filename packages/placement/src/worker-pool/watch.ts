/** Watches the WorkerPools of the cluster and their Deployments, while Berth needs them. */

import { InformerSet, pick } from "@berth/host";
import { type Deployment, deployments, type KubeObject } from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  type Component,
  keyOf,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
  type Running,
  type SharedInformers,
} from "@berth/runtime";
import { ownEntry } from "../node/managed-fields.ts";
import { withoutManagers } from "../node/once.ts";
import { controllerOf, groupOf } from "../node/owner-reference.ts";
import { poolNameOf, WORKER_POOL_FIELD_MANAGER, WORKER_POOL_GROUP } from "./keys.ts";
import { type WorkerPool, workerPools } from "./resource.ts";

export interface WorkerPoolWatchOptions {
  readonly informers: SharedInformers;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** This pool must be checked. `initial`: as one of all pools. Must not throw. */
  readonly onPool: (key: ObjectKey, initial: boolean) => void;
}

const ALL = "all";

/**
 * The API server cannot select these Deployments by a label, so the watch receives every one of the cluster. It keeps
 * only the identity of a Deployment that belongs to no pool. A missing permission is in the log and in the metrics of
 * informers. It is no problem of the process, which also serves other capabilities.
 */
export class WorkerPoolWatch implements Component {
  readonly name = "worker-pools-watch";
  readonly #cluster: ClusterName;
  readonly #onPool: WorkerPoolWatchOptions["onPool"];
  readonly #pools: InformerSet<WorkerPool>;
  readonly #deployments: InformerSet<Deployment>;

  constructor(options: WorkerPoolWatchOptions) {
    this.#cluster = options.cluster;
    this.#onPool = options.onPool;
    const onSynced = (): void => this.enqueueAll();
    this.#pools = new InformerSet({
      ...options,
      name: this.name,
      resource: workerPools,
      onChange: ({ object }) => this.#onPool(keyOf(this.#cluster, object), false),
      onSynced,
    });
    this.#deployments = new InformerSet({
      ...options,
      name: "worker-pool-deployments",
      resource: deployments,
      onChange: (change) => this.#onDeployment(change),
      onSynced,
    });
  }

  /** Can be called at any time, also before `start`. */
  want(needed: boolean): void {
    const wanted = { key: ALL, scope: {} };
    this.#pools.want(needed ? [{ ...wanted, project: withoutManagers }] : []);
    this.#deployments.want(needed ? [{ ...wanted, project: slimDeployment }] : []);
  }

  /** False also while Berth does not need them. */
  get synced(): boolean {
    return this.#pools.get(ALL) !== undefined && this.#deployments.get(ALL) !== undefined;
  }

  pool(key: ObjectKey): WorkerPool | undefined {
    return this.#pools.get(ALL)?.get(key);
  }

  deployment(key: ObjectKey): Deployment | undefined {
    return this.#deployments.get(ALL)?.get(key);
  }

  /** Enqueues all pools, once they have been read. */
  enqueueAll(): void {
    if (!this.synced) return;
    for (const pool of this.#pools.get(ALL)?.list() ?? []) this.#onPool(keyOf(this.#cluster, pool), true);
  }

  async start(signal: AbortSignal): Promise<Running> {
    const both = await Promise.all([this.#pools.start(signal), this.#deployments.start(signal)]);
    return { ended: Promise.all(both.map(({ ended }) => ended)).then(() => undefined) };
  }

  note(): string | undefined {
    return this.#pools.note() ?? this.#deployments.note();
  }

  #onDeployment(change: Change<Deployment>): void {
    const states = change.type === "updated" ? [change.old, change.object] : [change.object];
    const { namespace = "", name = "" } = change.object.metadata ?? {};
    const names = new Set(states.flatMap((state) => controllingPool(state) ?? []));
    const byName = poolNameOf(name);
    if (byName !== undefined) names.add(byName);
    for (const pool of names) {
      const key: ObjectKey = { cluster: this.#cluster, namespace, name: pool };
      if (this.pool(key) !== undefined) this.#onPool(key, false);
    }
  }
}

/** The pool that controls the object; `undefined`: none does. */
function controllingPool({ metadata }: KubeObject): string | undefined {
  const controller = controllerOf(metadata ?? {});
  if (controller === undefined) return undefined;
  const { apiVersion, kind, name } = controller;
  return kind === workerPools.kind && groupOf(apiVersion) === WORKER_POOL_GROUP ? name : undefined;
}

/** Keeps the fields that the decision reads. Of a Deployment that no pool controls it keeps only the identity. */
export function slimDeployment(deployment: Deployment): Deployment {
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
