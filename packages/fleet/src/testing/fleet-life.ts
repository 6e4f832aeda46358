/** One life of Berth's controllers of a fleet, on caches that are behind the server, each by itself. */
import type { Host, KeySource } from "@berth/host";
import {
  type ApiFailure,
  type DeleteOptions,
  type KubeObject,
  type Patch,
  pods,
  type Resource,
  type WriteOptions,
} from "@berth/kube";
import {
  createMetricsRegistry,
  createSilentLogger,
  type LogFields,
  type MetricsRegistry,
  type ObjectKey,
  type Reconcile,
  type ReconcileResult,
  type VirtualClock,
} from "@berth/runtime";
import { resourceClaims } from "../api/quota.ts";
import { type Claims } from "../claims/claims.ts";
import { Keeper } from "../claims/keeper.ts";
import { ClaimPlane } from "../claims/plane.ts";
import { Quota } from "../claims/quota.ts";
import { type FleetSpec, fleetKind } from "../fleet/document.ts";
import type { Decided } from "../wiring/concerns.ts";
import { addDeploymentController } from "../wiring/deployments.ts";
import { addInstanceController } from "../wiring/instances.ts";
import { createFleetMetrics } from "../wiring/metrics.ts";
import { NetworkStep } from "../wiring/network-step.ts";
import { PodSight } from "../wiring/pod-sight.ts";
import type { FleetViews } from "../wiring/reads.ts";
import { addWorkloadController } from "../wiring/workloads.ts";
import { type CacheOptions, clusterOfModel, LaggingCache, viewsOver } from "./lagging-views.ts";
import { failed, type ObjectServer } from "./object-server.ts";

const SPEC: FleetSpec = fleetKind.spec.parse({
  mode: "single",
  project: { id: "web" },
  cities: ["DFW"],
  networking: "Off",
  quota: { from: "Cluster" },
});

export type ControllerName = "workloads" | "workload-deployments" | "instances";

/** Of one process, until it waits for an event. */
const MOST_LOOKS = 6;

export interface LifeOptions {
  readonly server: ObjectServer;
  readonly clock: VirtualClock;
  readonly isQuotaDown: () => boolean;
  /** Default `Off`. */
  readonly networking?: FleetSpec["networking"];
}

interface AddedController {
  readonly name: string;
  readonly reconcile: Reconcile<ObjectKey>;
}

export class FleetLife {
  /** So many requests more are carried out. The process is killed at the next one. */
  requestsLeft: number = Number.POSITIVE_INFINITY;
  /** The request at which it is killed is carried out. */
  killsAfter = false;
  isDead = false;
  /** How the API server answers, by verb and plural: `create pods`. Default: it does as asked. */
  readonly faults: Map<string, ApiFailure> = new Map();
  /** What controllers ask for: `instances w-us-dfw-0`. */
  readonly asked: string[] = [];
  /** What changes lead to: `deployments w-us-dfw`. */
  readonly woken: string[] = [];
  /** What Berth has told, in order: `Warning QuotaNoBudget w-us-dfw-0`. */
  readonly events: string[] = [];
  /** The fields of each debug line, in order. */
  readonly debugLines: LogFields[] = [];
  readonly metrics: MetricsRegistry = createMetricsRegistry({ processMetrics: false });
  readonly #server: ObjectServer;
  readonly #options: LifeOptions;
  readonly #caches = new Map<string, LaggingCache>();
  readonly #controllers = new Map<string, Reconcile<ObjectKey>>();
  readonly #plane: ClaimPlane;
  readonly #keeper = new Keeper(() => this.#plane.outage === undefined);
  readonly #questions = new Set<Promise<void>>();
  readonly #onService: () => void;
  readonly #fleet: { spec: FleetSpec };
  readonly #views: FleetViews;
  #isAnswered = false;

  constructor(options: LifeOptions) {
    const { server, clock, isQuotaDown, networking = "Off" } = options;
    const spec = { ...SPEC, networking };
    this.#server = server;
    this.#options = options;
    this.#plane = new ClaimPlane(this.#client(isQuotaDown), () => undefined);
    const host = this.#host();
    const fleet = (this.#fleet = { spec });
    const views = (this.#views = viewsOver(
      (resource, given) => this.cacheOf(resource, given),
      { clock, fleet: spec, onKey: ({ of, key }) => void this.woken.push(`${of} ${key.name}`) },
      () => network,
      () => sight,
    ));
    const network: NetworkStep = new NetworkStep({ views, fleet, clock });
    const sight: PodSight = new PodSight({ ...host, pods: views.pods });
    const metrics = createFleetMetrics(host.metrics, clock, () => true);
    const quota = new Quota({
      fleet,
      claims: this.#claims(),
      cluster: clusterOfModel,
      namespaces: views.namespaces,
      clock,
      onAnswer: () => (this.#isAnswered = true),
      onHold: () => undefined,
      onFailure: metrics.failed,
    });
    this.#onService = () => quota.serviceChanged(() => true);
    const keysOf = (of: Decided): KeySource => ({
      ask: (keys) => void this.asked.push(...Array.from(keys, ({ name }) => `${of} ${name}`)),
      askAll: () => undefined,
      start: () => ({ [Symbol.dispose]: () => undefined }),
    });
    const asked = {
      workloads: keysOf("workloads"),
      deployments: keysOf("deployments"),
      instances: keysOf("instances"),
    };
    const parts = { host, lease: "compute-single", fleet, views, quota, network, metrics, asked };
    addInstanceController(parts, sight);
    addDeploymentController(parts);
    addWorkloadController(parts);
  }

  /** Another Fleet comes into force. */
  change(fleet: Partial<FleetSpec>): void {
    this.#fleet.spec = { ...this.#fleet.spec, ...fleet };
    this.#views.want(this.#fleet.spec);
  }

  cacheOf(resource: Resource, options: CacheOptions = {}): LaggingCache {
    const known = this.#caches.get(resource.plural) ?? new LaggingCache(this.#server, resource, options);
    this.#caches.set(resource.plural, known);
    return known;
  }

  seeAll(): void {
    for (const cache of this.#caches.values()) cache.see();
  }

  /** One look at an object. A failure is retried at a later look. */
  async look(controller: ControllerName, name: string): Promise<void> {
    // An answer of the quota service brings another look.
    for (let looks = 0; looks < MOST_LOOKS && !this.isDead; looks += 1) {
      this.#isAnswered = false;
      try {
        await this.reconcile(controller, name);
      } catch (error) {
        if (!(error instanceof Error) || error.name !== "ApiError") throw error;
      }
      await Promise.all(this.#questions);
      if (!this.#isAnswered) return;
    }
  }

  /** The same, with what the queue is told. @throws ApiError */
  async reconcile(controller: ControllerName, name: string): Promise<ReconcileResult | undefined> {
    const { signal } = new AbortController();
    const silent = createSilentLogger();
    const debug = (_message: string, fields: LogFields = {}): void => void this.debugLines.push(fields);
    const log = { ...silent, debug, with: () => log };
    const key = { cluster: clusterOfModel, namespace: "default", name };
    return (await this.#controllers.get(controller)?.(key, { signal, log })) ?? undefined;
  }

  /** Finds out whether the quota service works again. */
  async probe(): Promise<void> {
    if (this.#plane.outage === undefined) return;
    await this.#plane.probe(new AbortController().signal);
    this.#keeper.next();
    this.#onService();
    await Promise.all(this.#questions);
  }

  #host(): Host {
    const runtime = {
      addController: ({ name, reconcile }: AddedController) => void this.#controllers.set(name, reconcile),
    };
    const host = {
      runtime,
      client: this.#client(() => false),
      cluster: clusterOfModel,
      clock: this.#options.clock,
      events: {
        record: ({ type, reason, regarding }: Parameters<Host["events"]["record"]>[0]) =>
          void this.events.push(`${type} ${reason} ${regarding.name}`),
      },
      metrics: this.metrics,
    };
    return host as unknown as Host;
  }

  #claims(): Claims {
    const plane = this.#plane;
    const cache = this.cacheOf(resourceClaims);
    const { signal } = new AbortController();
    const claims: Pick<
      Claims,
      "watches" | "seen" | "isAsked" | "ask" | "forget" | "outage" | "watchProblem"
    > = {
      watches: () => true,
      seen({ project, name }) {
        const value = cache.get({ name });
        return { is: "read", project, claim: value === undefined ? { is: "none" } : { is: "there", value } };
      },
      isAsked: (_project, uid) => this.#keeper.has(uid),
      ask: (_project, uid, question) => {
        this.#keeper.ask(uid, () => {
          const asked: Promise<void> = question(plane, signal).finally(() => this.#questions.delete(asked));
          this.#questions.add(asked);
          return asked;
        });
      },
      forget: (_project, uid) => this.#keeper.forget(uid),
      outage: () => plane.outage,
      watchProblem: () => undefined,
    };
    return claims as Claims;
  }

  #client(isDown: () => boolean): ModelClient {
    const server = this.#server;
    const asked = async <T>(resource: Resource, request: () => T, verb = "read"): Promise<T> => {
      const lost = failed({ kind: "unreachable" }, resource);
      if (this.isDead || isDown()) throw lost;
      this.requestsLeft -= 1;
      this.isDead = this.requestsLeft < 0;
      if (this.isDead && !this.killsAfter) throw lost;
      const fault = this.faults.get(`${verb} ${resource.plural}`);
      if (fault !== undefined) throw failed(fault, resource);
      const answer = await Promise.resolve(request());
      if (this.isDead) throw lost;
      return answer;
    };
    const client = {
      get: (resource: Resource, of: { name: string }) => asked(resource, () => server.get(resource, of)),
      read: () => asked(resourceClaims, () => ({})),
      list: (resource: Resource, { fieldSelector = "" }) =>
        asked(resource, () => {
          const isIt = ({ metadata }: KubeObject) => `metadata.name=${metadata?.name}` === fieldSelector;
          return { items: server.all(resource).filter(isIt) };
        }),
      create: (resource: Resource, object: KubeObject, { dryRun }: WriteOptions = {}) =>
        asked(
          resource,
          () =>
            dryRun ? object : server.create(resource, object, resource === resourceClaims ? PENDING : {}),
          "create",
        ),
      patch: (resource: Resource, of: { name: string }, patch: Patch, more: { subresource?: string } = {}) =>
        asked(resource, () => server.patch(resource, of, patch, more.subresource)),
      delete: (resource: Resource, of: { name: string }, options: DeleteOptions) =>
        asked(resource, () => server.delete(resource, of, options, resource === pods)),
    };
    return client as unknown as ModelClient;
  }
}

type ModelClient = ConstructorParameters<typeof ClaimPlane>[0] & Pick<Host["client"], "patch">;

/** What the API server shows of a claim that the quota service has not looked at. */
const PENDING = {
  conditions: [
    {
      type: "Granted",
      status: "False",
      reason: "PendingEvaluation",
      message: "Awaiting evaluation",
      lastTransitionTime: "1970-01-01T00:00:00Z",
    },
  ],
};
