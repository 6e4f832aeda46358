/** The ResourceClaims of all Instances: watched where the API server allows it, and read one by one elsewhere. */
import { keepFields } from "@berth/host";
import type { KubeClient } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  createInformer,
  type Informer,
  type Logger,
  type ObjectKey,
  type Running,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { labels } from "../api/keys.ts";
import { type ResourceClaim, resourceClaims } from "../api/quota.ts";
import { instanceClaiming } from "../instance/claim.ts";
import type { QuotaSeen } from "../instance/view.ts";
import { ClaimPlane, type ClaimRef } from "./plane.ts";

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
  "status.conditions[].type",
  "status.conditions[].status",
  "status.conditions[].reason",
  "status.conditions[].message",
];

export interface ClaimsOptions {
  /** The API server with the claims of a project. */
  readonly clientOf: (project: string) => KubeClient;
  /** All projects share one API server. */
  readonly isShared: boolean;
  readonly cluster: ClusterName;
  /** The value of the label `source-cluster`: other claims belong to another cluster. */
  readonly source: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** A claim of this Instance changed. Must not throw. */
  readonly onChange: (instance: ObjectKey) => void;
}

interface Plane {
  readonly requests: ClaimPlane;
  /** Absent above `MAX_WATCHED`. */
  readonly informer?: Informer<ResourceClaim>;
}

export class Claims implements Component {
  readonly name = "claims";
  readonly #options: ClaimsOptions;
  readonly #planes = new Map<string, Plane>();
  readonly #failed = Promise.withResolvers<never>();
  readonly #runs = new Set<Promise<void>>();
  #signal: AbortSignal | undefined;
  #probing: Promise<void> | undefined;

  constructor(options: ClaimsOptions) {
    this.#options = options;
    if (options.isShared) this.#planeOf("");
  }

  /** Does a change of a claim of this project arrive by itself? */
  watches(project: string): boolean {
    return this.#planeOf(project).informer?.absent === false;
  }

  /** What the watch shows. `unknown`: there is no watch, or it has not read the claims yet. */
  seen({ project, namespace, name }: ClaimRef): QuotaSeen {
    const { informer } = this.#planeOf(project);
    const { cluster } = this.#options;
    if (informer?.synced !== true || informer.absent)
      return { is: "read", project, claim: { is: "unknown", because: "Berth has not read the claims" } };
    const value = informer.get({ cluster, namespace, name });
    return { is: "read", project, claim: value === undefined ? { is: "none" } : { is: "there", value } };
  }

  read(ref: ClaimRef, signal: AbortSignal): Promise<QuotaSeen> {
    return this.#planeOf(ref.project).requests.read(ref, signal);
  }

  create(ref: ClaimRef, claim: ResourceClaim, signal: AbortSignal): Promise<QuotaSeen> {
    return this.#planeOf(ref.project).requests.create(ref, claim, signal);
  }

  delete(ref: ClaimRef, claim: ResourceClaim, signal: AbortSignal): Promise<QuotaSeen> {
    return this.#planeOf(ref.project).requests.delete(ref, claim, signal);
  }

  /** Is the quota service of this project known not to work? A watch without a connection says so, too. */
  isDown(project: string): boolean {
    const { requests, informer } = this.#planeOf(project);
    const isLost =
      informer !== undefined && !informer.absent && (!informer.synced || informer.problem() !== undefined);
    return requests.isDown || isLost;
  }

  start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    for (const plane of this.#planes.values()) this.#launch(plane);
    const end = async (): Promise<void> => {
      await whenAborted(signal);
      await Promise.all([...this.#runs, this.#probing]);
    };
    return Promise.resolve({ ended: Promise.race([end(), this.#failed.promise]) });
  }

  #planeOf(project: string): Plane {
    const { isShared, clientOf, clock, cluster, source, log } = this.#options;
    const key = isShared ? "" : project;
    const known = this.#planes.get(key);
    if (known !== undefined) return known;
    const client = clientOf(key);
    const plane: Plane = {
      requests: new ClaimPlane(client, () => this.#probe()),
      ...(this.#planes.size < MAX_WATCHED && {
        informer: createInformer({
          name: `claims-${key || "all"}`,
          client,
          cluster,
          resource: resourceClaims,
          scope: { labelSelector: `${labels.sourceCluster}=${source}` },
          project: keepFields(FIELDS),
          optional: true,
          staleAfterMs: STALE_MS,
          clock,
          log,
        }),
      }),
    };
    this.#planes.set(key, plane);
    this.#launch(plane);
    return plane;
  }

  #launch({ informer }: Plane): void {
    const signal = this.#signal;
    if (informer === undefined || signal === undefined || signal.aborted) return;
    const run: Promise<void> = this.#follow(informer, signal)
      .catch(this.#failed.reject)
      .finally(() => this.#runs.delete(run));
    this.#runs.add(run);
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

  /** Asks services that do not work until they do. */
  #probe(): void {
    const signal = this.#signal;
    if (signal === undefined || signal.aborted) return;
    this.#probing ??= this.#probeAll(signal).finally(() => (this.#probing = undefined));
  }

  async #probeAll(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const down = (): readonly ClaimPlane[] =>
      [...this.#planes.values()].map(({ requests }) => requests).filter(({ isDown }) => isDown);
    while (down().length > 0 && (await sleep(clock, PROBE_MS, signal)))
      await Promise.all(down().map((plane) => plane.probe(signal)));
  }
}
