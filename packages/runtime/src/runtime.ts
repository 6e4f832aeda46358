import { randomUUID } from "node:crypto";
import { apiVersionOf, type KubeClient, type KubeObject, nameOfResource, type Resource } from "@berth/kube";
import { type Clock, systemClock } from "./clock.ts";
import { type ClusterSet, type ClusterSetOptions, createClusterSet } from "./clusters/cluster-set.ts";
import { type Component, createServerComponent } from "./component.ts";
import { type Controller, type ControllerOptions, createController } from "./controller.ts";
import { EventRecorder } from "./events.ts";
import { type GuardedClient, type GuardOptions, guardClient } from "./guarded-client.ts";
import type { HealthCheck } from "./health-checks.ts";
import { createInformer, type Informer, type InformerOptions } from "./informer.ts";
import { createJsonLogger } from "./json-log.ts";
import { type ClusterName, clusterName } from "./key.ts";
import { type LeaderElectionOptions, LeaderElector } from "./leader-election.ts";
import type { Logger } from "./log.ts";
import { Manager, type ManagerOptions, type RunEnd } from "./manager.ts";
import { type Mapper, toOwner, toSelf } from "./mapper.ts";
import type { MetricsRegistry } from "./metrics.ts";
import type { Predicate } from "./predicate.ts";
import { type ProbeServers, startProbeServers } from "./probe-server.ts";
import { createMetricsRegistry } from "./prometheus.ts";
import { type WatchForOptions, watchFor } from "./source.ts";

/** Options of a `Runtime`. Only the name and the client are required. */
export interface RuntimeOptions
  extends Pick<ManagerOptions, "stopLimitMs" | "drainLimitMs" | "vital">,
    Pick<GuardOptions, "grantOf"> {
  /** Names the program: the beginning of its identity, and of its metrics. */
  readonly name: string;
  /** The reporting controller of its Events. Default: the name. */
  readonly reportingController?: string;
  /** The caller owns it and closes it once `run` has ended. */
  readonly client: KubeClient;
  /** The cluster in every key. Default `local`. */
  readonly cluster?: ClusterName;
  /** The Lease that replicas compete for, and its times. Absent: this process is the only one. */
  readonly lease?: { readonly namespace: string; readonly name: string } & Pick<
    LeaderElectionOptions,
    "leaseDurationMs" | "renewDeadlineMs" | "retryPeriodMs"
  >;
  /** This process, in the Lease and in Events; no other process may have it. Default: the name and a random part. */
  readonly identity?: string;
  /** Where `/metrics` is served: `:8080`, `127.0.0.1:0`. Default `0`, which is off. */
  readonly metricsBindAddress?: string;
  /** Where `/healthz`, `/livez` and `/readyz` are served; may be the same address. Default `0`, which is off. */
  readonly healthBindAddress?: string;
  /** Default: the machine's. */
  readonly clock?: Clock;
  /** Default: lines of JSON on standard output. */
  readonly log?: Logger;
  /** Default: its own registry. Pass one to count the requests of `client` as well (`declareApiMetrics`). */
  readonly metrics?: MetricsRegistry;
}

/** The informer options that each program sets; the runtime sets the rest. */
export type SharedInformerOptions<T extends KubeObject> = Omit<
  InformerOptions<T>,
  "client" | "cluster" | "resource" | "clock" | "log" | "metrics"
>;

/**
 * When a component starts: `first` before the informers, `caches` with them, `everywhere` once they are synced, `elected`
 * once this process leads as well.
 */
export type StartStage = (typeof START_STAGES)[number];

/** The stages of a start, in their order. */
export const START_STAGES = ["first", "caches", "everywhere", "elected"] as const;

/** The name of the component that serves metrics and health. */
export const PROBES = "probes";

/** The resources of a controller, and the changes that request a reconcile. */
export interface RuntimeControllerOptions<T extends KubeObject>
  extends Omit<ControllerOptions, "clock" | "log" | "metrics" | "toText"> {
  /** A change of one of these requests its own key, or the keys that `map` returns. Default: only `sources` count. */
  readonly for?: Resource<T>;
  readonly map?: Mapper<T>;
  /** Which changes of these count. Default all. */
  readonly predicate?: Predicate<T>;
  /** Which changes of these skip the queue's `coalesceMs`. Default: see `WatchForOptions`. */
  readonly immediate?: WatchForOptions<T>["immediate"];
  /** A change of one requests the key of its managing owner (`controller: true`) if that is one of `for`. */
  readonly owns?: readonly Resource[];
  /** Whether only the leader runs it. Default true; false for work that each replica must do for itself. */
  readonly elected?: boolean;
  /** See `Runtime.add`. */
  readonly lease?: string;
}

/**
 * Combines the parts of a controller program: one shared informer for each resource; controllers; Events, probes,
 * metrics and an election; one order to start and stop. It adds nothing to their guarantees and hides none of them. It
 * reads no environment variables, arguments or signals.
 */
export interface Runtime {
  readonly cluster: ClusterName;
  /** The client that reconcilers should use: see `GuardedClient`. It writes nothing once a lease is lost. */
  readonly client: GuardedClient;
  /** Guards the client of another server in the same way. The caller closes `client`. */
  guard(client: KubeClient): GuardedClient;
  /**
   * A set of other clusters, which starts with the informers. Its clients write nothing once a lease is lost.
   * @throws Error after `run`.
   */
  clusters(name: string, options?: Pick<ClusterSetOptions, "limit">): ClusterSet;
  /** Writes Events while `run` runs. Events recorded earlier wait. */
  readonly events: EventRecorder;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  /** `http://127.0.0.1:8080`; `undefined` when off and until it listens. */
  readonly metricsUrl: string | undefined;
  readonly healthUrl: string | undefined;
  /** Resolves once metrics and health are served. If they cannot be served, `run` ends. */
  readonly listening: Promise<void>;
  /** One for each component, complete once `run` was called. `/readyz` runs these and any added ones. */
  readonly readyChecks: HealthCheck[];
  /**
   * The informer of a resource. The first call makes it and later calls return the same one. It starts with `run`.
   * @throws RangeError when a later call has options (the first call fixed them); Error for a new one after `run`.
   */
  informer<T extends KubeObject>(resource: Resource<T>, options?: SharedInformerOptions<T>): Informer<T>;
  /**
   * Adds a controller. Changes of `for`, of `owns` and of its further `sources` request its keys. It starts when all
   * caches are synced and this process leads.
   * @throws Error after `run`, and RangeError as `createController`.
   */
  addController<T extends KubeObject>(options: RuntimeControllerOptions<T>): Controller;
  /**
   * Adds another component: a server, a watcher of files. @param stage default `first`. @param lease the Lease, in the
   * namespace of `RuntimeOptions.lease`, whose leader runs an `elected` one. Default that Lease. Without it none is used.
   * @throws Error after `run`.
   */
  add(component: Component, stage?: StartStage, lease?: string): void;
  /**
   * Starts everything and runs until `signal` aborts, a lead is lost, or a component fails; then stops in order.
   * May be called once.
   * @throws RangeError when two components have one name; nothing has started then.
   */
  run(signal: AbortSignal): Promise<RunEnd>;
}

/** Creates a runtime; nothing happens before `run`. */
export function createRuntime(options: RuntimeOptions): Runtime {
  return new AssembledRuntime(options);
}

type Common = { readonly clock: Clock; readonly log: Logger; readonly metrics: MetricsRegistry };

class AssembledRuntime implements Runtime {
  readonly cluster: ClusterName;
  readonly client: GuardedClient;
  readonly events: EventRecorder;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly #options: RuntimeOptions;
  readonly #common: Common;
  readonly #identity: string;
  readonly #guarding: GuardOptions;
  readonly #reporting: Pick<ClusterSetOptions, "reportingController" | "reportingInstance">;
  /** By the name of the Lease. */
  readonly #elections = new Map<string, LeaderElector>();
  readonly #informers = new Map<string, Informer<KubeObject>>();
  readonly #added: {
    readonly component: Component;
    readonly stage: StartStage;
    readonly lease: string | undefined;
  }[] = [];
  readonly readyChecks: HealthCheck[] = [];
  readonly #listening = Promise.withResolvers<void>();
  readonly listening: Promise<void> = this.#listening.promise;
  #servers: ProbeServers | undefined;
  #ran = false;

  constructor(options: RuntimeOptions) {
    const { name, lease, clock = systemClock, log = createJsonLogger(), grantOf } = options;
    this.#options = options;
    this.cluster = options.cluster ?? clusterName("local");
    this.metrics = options.metrics ?? createMetricsRegistry({ prefix: `${name.replaceAll(/\W/g, "_")}_` });
    this.log = log;
    this.#common = { clock, log, metrics: this.metrics };
    this.#identity = options.identity ?? `${name}-${randomUUID()}`;
    const identity = this.#identity;
    if (lease !== undefined) this.#elect(lease.name);
    this.#guarding = {
      clock,
      log,
      // Whoever loses one lead ends, so it writes nothing more for the others either.
      mayWrite: () => this.#elections.values().every(({ mayWrite }) => mayWrite),
      ...(grantOf && { grantOf }),
    };
    this.client = guardClient(options.client, { ...this.#guarding, watchesCrds: true });
    this.#reporting = {
      reportingController: options.reportingController ?? name,
      reportingInstance: identity,
    };
    this.events = new EventRecorder({ ...this.#common, ...this.#reporting, client: this.client });
  }

  /** @returns the name of the Lease that leads what is led by this one: `undefined` for `RuntimeOptions.lease`. */
  #elect(name: string | undefined): string | undefined {
    const { lease, client } = this.#options;
    if (lease === undefined || name === undefined) return undefined;
    const identity = this.#identity;
    if (!this.#elections.has(name)) {
      const { namespace, name: _, ...times } = lease;
      const elector = new LeaderElector({
        ...this.#common,
        ...times,
        client,
        lease: { namespace, name },
        identity,
      });
      this.#elections.set(name, elector);
    }
    return name === lease.name ? undefined : name;
  }

  guard(client: KubeClient): GuardedClient {
    return guardClient(client, this.#guarding);
  }

  clusters(name: string, options?: Pick<ClusterSetOptions, "limit">): ClusterSet {
    const set = createClusterSet({
      ...this.#common,
      ...this.#guarding,
      ...this.#reporting,
      ...options,
      name,
    });
    this.add(set, "caches");
    return set;
  }

  get metricsUrl(): string | undefined {
    return this.#servers?.metricsUrl;
  }

  get healthUrl(): string | undefined {
    return this.#servers?.healthUrl;
  }

  informer<T extends KubeObject>(resource: Resource<T>, options?: SharedInformerOptions<T>): Informer<T> {
    const which = `${apiVersionOf(resource)} ${resource.plural}`;
    const known = this.#informers.get(which);
    if (known !== undefined) {
      if (options === undefined) return known as Informer<T>;
      throw new RangeError(
        `there is an informer of ${nameOfResource(resource)} already: give its options first`,
      );
    }
    this.#mustNotRun(`an informer of ${nameOfResource(resource)}`);
    const informer = createInformer<T>({
      ...options,
      ...this.#common,
      client: this.client,
      cluster: this.cluster,
      resource,
    });
    this.#informers.set(which, informer);
    return informer;
  }

  addController<T extends KubeObject>(options: RuntimeControllerOptions<T>): Controller {
    const { for: resource, predicate, immediate, owns = [], sources = [], ...rest } = options;
    this.#mustNotRun(`the controller ${options.name}`);
    const { map = toSelf(this.cluster), elected = true, lease, ...settings } = rest;
    const controller = createController({
      ...settings,
      ...this.#common,
      sources: [
        ...(resource === undefined
          ? []
          : [
              watchFor({
                informer: this.informer(resource),
                map,
                ...(predicate && { predicate }),
                ...(immediate && { immediate }),
              }),
              ...owns.map((owned) =>
                watchFor({
                  informer: this.informer(owned),
                  map: toOwner({ cluster: this.cluster, ...resource }),
                }),
              ),
            ]),
        ...sources,
      ],
    });
    this.add(controller, elected ? "elected" : "everywhere", lease);
    return controller;
  }

  add(component: Component, stage: StartStage = "first", lease?: string): void {
    this.#mustNotRun(component.name);
    this.#added.push({ component, stage, lease: stage === "elected" ? this.#elect(lease) : undefined });
  }

  async run(signal: AbortSignal): Promise<RunEnd> {
    this.#mustNotRun("a second run");
    this.#ran = true;
    const { stopLimitMs, drainLimitMs, vital, lease: own } = this.#options;
    const at = (stage: StartStage, lease?: string): readonly Component[] =>
      this.#added.filter((it) => it.stage === stage && it.lease === lease).map(({ component }) => component);
    const election = own && this.#elections.get(own.name);
    const manager = new Manager({
      ...this.#common,
      always: [
        [this.#probes()],
        [this.events, ...at("first")],
        [...this.#informers.values(), ...at("caches")],
        at("everywhere"),
      ],
      elected: at("elected"),
      ...(vital && { vital }),
      ...(election && { election }),
      apart: [...this.#elections]
        .filter(([lease]) => lease !== own?.name)
        .map(([lease, election]) => ({ lease, election, elected: at("elected", lease) })),
      ...(stopLimitMs !== undefined && { stopLimitMs }),
      ...(drainLimitMs !== undefined && { drainLimitMs }),
    });
    this.readyChecks.unshift(...manager.readyChecks);
    return await manager.run(signal);
  }

  /** Exists even when both are off: then it listens on nothing. */
  #probes(): Component {
    const { metricsBindAddress = "0", healthBindAddress = "0" } = this.#options;
    return createServerComponent({
      name: PROBES,
      start: async () => {
        const servers = await startProbeServers({
          ...this.#common,
          metricsBindAddress,
          healthBindAddress,
          liveChecks: [],
          readyChecks: this.readyChecks,
        });
        this.#servers = servers;
        this.#listening.resolve();
        const { metricsUrl, healthUrl } = servers;
        if (metricsUrl ?? healthUrl) this.log.info("listening", { metrics: metricsUrl, health: healthUrl });
        return servers;
      },
    });
  }

  #mustNotRun(what: string): void {
    if (this.#ran) throw new Error(`${what} comes too late: the runtime has begun to run`);
  }
}
