/** The ResourceClaims of all Instances: watched where the API server allows it, and read one by one elsewhere. */
import { keepFields } from "@berth/host";
import type { KubeClient } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  clusterName,
  createSharedInformers,
  type Informer,
  type InformerRequest,
  type Logger,
  type ObjectKey,
  type Running,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { DEFAULT_CELL, labels } from "../api/keys.ts";
import { type ResourceClaim, resourceClaims } from "../api/quota.ts";
import { instanceClaiming } from "../instance/claim.ts";
import type { QuotaSeen } from "../instance/view.ts";
import { Keeper } from "./keeper.ts";
import type { QuotaClients } from "./payer.ts";
import { ClaimPlane, type ClaimRef, type Outage, type Requests } from "./plane.ts";

/** How long a watch may have no connection before the service counts as down, ms. */
const STALE_MS = 5_000;
/** Interval between two looks at a service that does not work, ms. */
const PROBE_MS = 2_000;
/** Projects whose claims are watched. The claims of further ones are read one by one. */
const MAX_WATCHED = 500;

/** The fields of a claim that are read, see `instance/`. */
const FIELDS = [
  "metadata.creationTimestamp",
  "metadata.deletionTimestamp",
  "metadata.labels",
  "spec.consumerRef",
  "spec.requests",
  "status.conditions[].type",
  "status.conditions[].status",
  "status.conditions[].reason",
  "status.conditions[].message",
];

export type ClaimClients = QuotaClients<Requests & Pick<KubeClient, "list" | "watch">>;

export interface ClaimsOptions {
  readonly service: ClaimClients;
  readonly cluster: ClusterName;
  /** The value of the label `source-cluster`: other claims belong to another cluster. */
  readonly source: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** A claim of this Instance changed. Must not throw. */
  readonly onChange: (instance: ObjectKey) => void;
  /** The service of these projects is known not to work since now, or works again. Must not throw. */
  readonly onService: (isOf: (project: string) => boolean) => void;
}

interface Plane {
  readonly requests: ClaimPlane;
  /** Absent above `MAX_WATCHED`. */
  readonly informer?: Informer<ResourceClaim>;
  /** Aborted when the process stops, or when the last namespace of the project is gone. */
  readonly stop: AbortController;
  /** Earliest time of the next probe, monotonic ms. A service may answer probes, and nothing else. */
  probeAtMs: number;
}

export class Claims implements Component {
  readonly name = "claims";
  readonly #options: ClaimsOptions;
  readonly #planes = new Map<string, Plane>();
  /** By project. */
  readonly #keepers = new Map<string, Keeper>();
  readonly #failed = Promise.withResolvers<never>();
  readonly #runs = new Set<Promise<void>>();
  readonly #probed = new Set<Plane>();
  #service: ClaimClients;
  #isStarted = false;

  constructor(options: ClaimsOptions) {
    this.#options = options;
    this.#service = options.service;
    if (options.service.isShared) this.#planeOf("");
  }

  /** Other API servers have the claims now. All questions to the ones before end. */
  use(service: ClaimClients): void {
    for (const { stop } of this.#planes.values()) stop.abort();
    this.#planes.clear();
    this.#keepers.clear();
    this.#service = service;
    if (service.isShared) this.#planeOf("");
  }

  /** Does a change of a claim of this project arrive by itself? */
  watches(project: string): boolean {
    return this.#planeOf(project).informer?.absent === false;
  }

  /** What the watch shows. `unknown`: there is no watch, or it has not read the claims yet. */
  seen({ project, namespace, name }: ClaimRef): QuotaSeen {
    const { informer } = this.#planeOf(project);
    if (informer?.synced !== true || informer.absent)
      return { is: "read", project, claim: { is: "unknown", because: "Berth has not read the claims" } };
    const value = informer.get({ cluster: informer.cluster, namespace, name });
    return { is: "read", project, claim: value === undefined ? { is: "none" } : { is: "there", value } };
  }

  /** Does a question about this Instance wait for its turn or its answer? */
  isAsked(project: string, uid: string): boolean {
    return this.#keepers.get(project)?.has(uid) === true;
  }

  /**
   * Asks about the claim of one Instance when it is its turn. The question gets the service, and a signal that ends it.
   * While the service does not work, all wait but one probe.
   */
  ask(
    project: string,
    uid: string,
    question: (plane: ClaimPlane, signal: AbortSignal) => Promise<void>,
  ): void {
    const { requests, stop } = this.#planeOf(project);
    const keeper = this.#keepers.get(project) ?? new Keeper(() => requests.outage === undefined);
    this.#keepers.set(project, keeper);
    keeper.ask(uid, () => this.#owned(question(requests, stop.signal), stop.signal));
  }

  /** Drops the question about this Instance. */
  forget(project: string, uid: string): void {
    this.#keepers.get(project)?.forget(uid);
  }

  /** Ends everything about other projects: no namespace names them any more. */
  keep(isPaying: (project: string) => boolean): void {
    for (const project of new Set([...this.#planes.keys(), ...this.#keepers.keys()])) {
      if (project === "" || isPaying(project)) continue;
      this.#planes.get(project)?.stop.abort();
      this.#planes.delete(project);
      this.#keepers.delete(project);
    }
  }

  /** The service of this project does not work. */
  outage(project: string): Outage | undefined {
    return this.#planeOf(project).requests.outage;
  }

  /** How many services do not work. */
  get outages(): number {
    return this.#planes
      .values()
      .filter(({ requests }) => requests.outage !== undefined)
      .toArray().length;
  }

  /** Why the watch of claims cannot be trusted. `""`: it has only not begun. `undefined`: it can, or there is none. */
  watchProblem(project: string): string | undefined {
    const { informer } = this.#planeOf(project);
    if (informer === undefined) return undefined;
    const problem = informer.refusal ?? informer.problem();
    if (problem !== undefined) return problem;
    if (informer.absent) return `project ${project} serves no ResourceClaims`;
    return informer.synced ? undefined : "";
  }

  start(signal: AbortSignal): Promise<Running> {
    this.#isStarted = true;
    for (const plane of this.#planes.values()) this.#launch(plane);
    const end = async (): Promise<void> => {
      await whenAborted(signal);
      for (const { stop } of this.#planes.values()) stop.abort();
      await Promise.all(this.#runs);
    };
    return Promise.resolve({ ended: Promise.race([end(), this.#failed.promise]) });
  }

  #planeOf(project: string): Plane {
    const { clock, source, log } = this.#options;
    const { isShared, clientOf } = this.#service;
    const key = isShared ? "" : project;
    const known = this.#planes.get(key);
    if (known !== undefined) return known;
    const client = clientOf(key);
    const plane: Plane = {
      stop: new AbortController(),
      probeAtMs: -Infinity,
      requests: new ClaimPlane(client, () => this.#probe(plane)),
      ...(this.#planes.size < MAX_WATCHED && {
        informer: createSharedInformers({ client, cluster: clusterOf(key), clock }).informer({
          ...claimsRead(source),
          name: `claims-${key || "all"}`,
          log,
        }).informer,
      }),
    };
    this.#planes.set(key, plane);
    this.#launch(plane);
    return plane;
  }

  #launch({ informer, stop }: Plane): void {
    if (informer !== undefined && this.#isStarted)
      void this.#owned(this.#follow(informer, stop.signal), stop.signal);
  }

  /** A rejection ends the process, unless the work was stopped. */
  async #owned(work: Promise<void>, signal: AbortSignal): Promise<void> {
    const run = work
      .catch((error: unknown) => {
        if (!signal.aborted) this.#failed.reject(error);
      })
      .finally(() => this.#runs.delete(run));
    this.#runs.add(run);
    await run;
  }

  async #follow(informer: Informer<ResourceClaim>, signal: AbortSignal): Promise<void> {
    const { onChange, cluster, source } = this.#options;
    using _subscription = informer.subscribe({
      onChange({ object }) {
        const claiming = instanceClaiming(object, source);
        if (claiming !== undefined) onChange({ cluster, ...claiming });
      },
    });
    const running = await informer.start(signal);
    await running.ended;
  }

  /** Asks a service that does not work until it does: one request in `PROBE_MS`. */
  #probe(plane: Plane): void {
    if (this.#probed.has(plane)) return;
    this.#probed.add(plane);
    const probing = this.#probeUntil(plane).finally(() => this.#probed.delete(plane));
    void this.#owned(probing, plane.stop.signal);
  }

  async #probeUntil(plane: Plane): Promise<void> {
    const { clock, onService } = this.#options;
    const { isShared } = this.#service;
    const {
      requests,
      stop: { signal },
    } = plane;
    const isOf = (project: string): boolean => this.#planes.get(isShared ? "" : project) === plane;
    let isTold = false;
    do {
      if (!(await sleep(clock, Math.max(0, plane.probeAtMs - clock.monotonic()), signal))) return;
      plane.probeAtMs = clock.monotonic() + PROBE_MS;
      await requests.probe(signal);
      if (signal.aborted) return;
      if (requests.outage?.isConfirmed && !isTold) onService(isOf);
      isTold = true;
    } while (requests.outage !== undefined);
    for (const keeper of this.#keepers.values()) keeper.next();
    onService(isOf);
  }
}

/** In mode `Projects` each project is a cluster. Others have all claims in one. */
function clusterOf(project: string): ClusterName {
  return clusterName(project === "" ? "quota" : `quota:${project}`);
}

/** What is read of the claims of a cluster. */
function claimsRead(source: string): Omit<InformerRequest<ResourceClaim>, "log"> {
  return {
    resource: resourceClaims,
    scope: { labelSelector: selectorOf(source) },
    project: keepFields(FIELDS),
    optional: true,
    staleAfterMs: STALE_MS,
  };
}

/** Cells of the original have the default name, whatever Berth calls them. */
function selectorOf(source: string): string {
  const key = labels.sourceCluster;
  return source === DEFAULT_CELL ? `${key}=${source}` : `${key} in (${source},${DEFAULT_CELL})`;
}
