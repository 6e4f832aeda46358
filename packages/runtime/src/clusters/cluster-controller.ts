import type { Running } from "../component.ts";
import { whenAborted } from "../component.ts";
import { type Controller, type ControllerOptions, createController } from "../controller.ts";
import type { ClusterName, ObjectKey } from "../key.ts";
import type { Counter, MetricsRegistry } from "../metrics.ts";
import type { AddOptions } from "../work-queue.ts";
import type { ClusterCommon, EngagedCluster } from "./engaged-cluster.ts";
import { type MetricsScope, scopeMetrics } from "./metrics-scope.ts";

/** Options of a controller with a queue for each cluster. */
export interface ClusterControllerOptions
  extends Omit<ControllerOptions, "clock" | "log" | "metrics" | "random" | "toText"> {
  /** Reconciles running at one time for one cluster, default 4. */
  readonly concurrency?: number;
}

/** The part of a set that the controller needs. */
export interface FollowedClusters {
  get(name: ClusterName): EngagedCluster | undefined;
  has(name: ClusterName): boolean;
  list(): readonly EngagedCluster[];
  subscribe(handler: (of: ClusterName) => void): Disposable;
}

/** As many as one API server has to work for at one time. */
const WORKERS = 4;

interface Child {
  readonly controller: Controller;
  readonly metrics: MetricsScope;
  readonly stop: AbortController;
  /** Of the cluster when its keys were last brought forward. */
  seen: string;
  running: Promise<Running> | undefined;
}

/**
 * A queue and workers for each cluster of a set, so that a cluster that hangs delays no other.
 *
 * - A key of a cluster that has not joined is dropped and counted: it will be requested when the cluster has joined and its
 *   objects are read.
 * - Workers begin once the cluster was probed. They also run while it is not reached: the reconciler decides what to do.
 * - When a cluster is lost, comes back, or was restored, all its waiting keys are due at once.
 * - When a cluster leaves, its keys and metrics are gone.
 */
export class ClusterController implements Controller {
  readonly name: string;
  readonly #options: ClusterControllerOptions;
  readonly #common: ClusterCommon;
  readonly #clusters: FollowedClusters;
  readonly #children = new Map<ClusterName, Child>();
  readonly #dropped: Counter<"controller">;
  #stopping: AbortSignal | undefined;

  constructor(options: ClusterControllerOptions, common: ClusterCommon, clusters: FollowedClusters) {
    const { metrics } = common;
    this.name = options.name;
    this.#options = options;
    this.#common = common;
    this.#clusters = clusters;
    this.#dropped = metrics.counter({
      name: `${metrics.prefix}unknown_cluster_keys_total`,
      help: "Keys dropped because their cluster has not joined.",
      labels: ["controller"],
    });
  }

  enqueue(key: ObjectKey, options?: AddOptions): void {
    if (this.#stopping?.aborted) return;
    if (this.#clusters.has(key.cluster)) this.#childOf(key.cluster).controller.enqueue(key, options);
    else this.#dropped.inc({ controller: this.name });
  }

  retryNow(): void {
    for (const { controller } of this.#children.values()) controller.retryNow();
  }

  start(signal: AbortSignal): Promise<Running> {
    this.#stopping = signal;
    const following = new DisposableStack();
    following.use(this.#clusters.subscribe((of) => this.#look(of)));
    for (const { name } of this.#clusters.list()) this.#look(name);
    for (const source of this.#options.sources ?? [])
      following.use(source.start((key, options) => this.enqueue(key, options)));
    const drain = async (): Promise<void> => {
      following.dispose();
      await Promise.all(this.#children.values().map(async ({ running }) => (await running)?.drain?.()));
    };
    const stop = async (): Promise<void> => {
      following.dispose();
      await Promise.all([...this.#children].map(([of, child]) => this.#end(of, child)));
    };
    return Promise.resolve({ ended: whenAborted(signal).then(stop), drain });
  }

  /** A cluster has joined or left, or its reach has changed. */
  #look(of: ClusterName): void {
    const child = this.#children.get(of);
    if (!this.#clusters.has(of)) {
      if (child) void this.#end(of, child);
      return;
    }
    const cluster = this.#clusters.get(of);
    if (cluster === undefined || child === undefined) return;
    this.#run(of, child);
    const seen = `${cluster.reach.is} ${cluster.restores}`;
    if (child.seen !== seen) child.controller.retryNow();
    child.seen = seen;
  }

  #childOf(of: ClusterName): Child {
    const known = this.#children.get(of);
    if (known !== undefined) return known;
    const { random, clock, log } = this.#common;
    const name = `${this.name}-${of}`;
    const metrics = scopeMetrics(this.#common.metrics, { controller: name });
    const controller = createController({
      concurrency: WORKERS,
      ...this.#options,
      sources: [],
      ...(random && { random }),
      name,
      clock,
      metrics: { ...metrics, histogram: histogramsOf(this.name, this.#common.metrics) },
      log: log.with({ cluster: of }),
    });
    const child: Child = { controller, metrics, stop: new AbortController(), seen: "", running: undefined };
    this.#children.set(of, child);
    this.#run(of, child);
    return child;
  }

  #run(of: ClusterName, child: Child): void {
    if (child.running !== undefined || this.#stopping === undefined) return;
    if (this.#clusters.get(of) !== undefined) child.running = child.controller.start(child.stop.signal);
  }

  async #end(of: ClusterName, child: Child): Promise<void> {
    this.#children.delete(of);
    child.stop.abort();
    child.metrics[Symbol.dispose]();
    await (await child.running)?.ended;
  }
}

/** A histogram has 16 series, and each of hundreds of clusters would have its own: durations are those of all clusters. */
function histogramsOf(controller: string, metrics: MetricsRegistry): MetricsRegistry["histogram"] {
  return (options) => {
    const histogram = metrics.histogram(options);
    const labels = { controller } as Readonly<Record<string, string>>;
    return { ...histogram, observe: (value) => histogram.observe(value, labels) };
  };
}
