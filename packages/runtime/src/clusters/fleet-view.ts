import { type KubeObject, nameOfResource, pathOf } from "@berth/kube";
import type { Component } from "../component.ts";
import type { Informer } from "../informer.ts";
import { type ClusterName, keyOf, type ObjectKey } from "../key.ts";
import type { Change } from "../lister.ts";
import type { Logger } from "../log.ts";
import type { MetricsRegistry } from "../metrics.ts";
import type { InformerRequest, SharedInformer, SharedInformers } from "../shared/shared-informers.ts";
import { isInitial, type Source } from "../source.ts";
import { Holders } from "./holders.ts";

/**
 * What a view knows of one cluster:
 * - `absent`: it has not joined, or it does not serve the kind;
 * - `unsynced`: there is no snapshot, or none since it was restored or mistaken for another cluster;
 * - `synced`: what the view lacks is not in the cluster;
 * - `stale`: the last known state, of a cluster that is not reached or whose watch is interrupted.
 */
export type ViewState = "absent" | "unsynced" | "synced" | "stale";

/** The objects of a view, and what to keep of each. */
export type ViewRequest<T extends KubeObject> = Pick<
  InformerRequest<T>,
  "resource" | "project" | "indexes" | "scope" | "metadataOnly"
>;

/** Learns of changes. */
export interface ViewHandler<T extends KubeObject> {
  /** As of an informer of that cluster. That a cluster leaves deletes none of its objects, so it tells of no deletion. */
  onChange?(change: Change<T>, of: ClusterName): void;
  /** The state of a cluster has changed, or it was read anew: then all is there, and its changes are told afterwards. */
  onState?(of: ClusterName): void;
}

/**
 * One kind of object in all clusters of a set, those that join later included. Once `synced`, that an object is missing
 * means that the cluster does not have it. In all other states it means nothing.
 */
export interface FleetView<T extends KubeObject> {
  /** `undefined` also for a cluster that is absent or unsynced. */
  get(key: ObjectKey): T | undefined;
  /** The objects of one cluster. */
  list(of: ClusterName): Iterable<T>;
  /** The clusters that have an object of this `namespace/name`. The first call takes a look at all objects. */
  having(path: string): readonly ClusterName[];
  /** In all clusters, or in one. @throws RangeError when no such index was declared. */
  byIndex(index: string, value: string, of?: ClusterName): readonly T[];
  state(of: ClusterName): ViewState;
  /** Tells of what is there as `added` with `initial`, and then of all changes. */
  subscribe(handler: ViewHandler<T>): Disposable;
}

/** The part of a cluster that a view needs. */
export interface ViewedCluster {
  readonly name: ClusterName;
  readonly isReached: boolean;
  readonly epoch: number;
}

interface Member<T extends KubeObject> {
  readonly cluster: ViewedCluster;
  readonly shared: SharedInformer<T>;
  /** Of the last snapshot. `undefined` before the first. */
  epoch: number | undefined;
  /** What was told last. */
  told: ViewState;
}

/** The side of a view that its set calls. */
export interface ViewMembership {
  /** The informer of this view in a cluster. */
  join(cluster: ViewedCluster, informers: SharedInformers, metrics: MetricsRegistry): Component;
  leave(of: ClusterName): void;
  /** The reach of the cluster has changed. */
  update(of: ClusterName): void;
}

/** Without a connection for this long an informer says that it has a problem. Milliseconds. */
const STALE_MS = 15_000;

export class ClusterView<T extends KubeObject> implements FleetView<T>, ViewMembership {
  readonly #request: ViewRequest<T>;
  readonly #log: Logger;
  readonly #isJoined: (of: ClusterName) => boolean;
  readonly #members = new Map<ClusterName, Member<T>>();
  readonly #handlers = new Map<ViewHandler<T>, Map<ClusterName, Disposable>>();
  /** Kept once it was asked for: few views are. */
  #holders: Holders | undefined;

  constructor(request: ViewRequest<T>, log: Logger, isJoined: (of: ClusterName) => boolean) {
    this.#request = request;
    this.#log = log;
    this.#isJoined = isJoined;
  }

  get(key: ObjectKey): T | undefined {
    return this.#informer(key.cluster)?.get(key);
  }

  list(of: ClusterName): Iterable<T> {
    return this.#informer(of)?.list() ?? [];
  }

  having(path: string): readonly ClusterName[] {
    this.#holders ??= this.#followHolders();
    return this.#holders.get(path).filter((of) => this.#informer(of)?.at(path) !== undefined);
  }

  byIndex(index: string, value: string, of?: ClusterName): readonly T[] {
    if (this.#request.indexes === undefined || !Object.hasOwn(this.#request.indexes, index))
      throw new RangeError(`the view has no index "${index}"`);
    const clusters = of === undefined ? [...this.#members.keys()] : [of];
    return clusters.flatMap((name) => this.#informer(name)?.byIndex(index, value) ?? []);
  }

  state(of: ClusterName): ViewState {
    const member = this.#members.get(of);
    if (member === undefined) return this.#isJoined(of) ? "unsynced" : "absent";
    const { cluster, shared, epoch } = member;
    if (shared.isMissing) return "absent";
    if (epoch !== cluster.epoch) return "unsynced";
    return cluster.isReached && shared.informer.connected ? "synced" : "stale";
  }

  subscribe(handler: ViewHandler<T>): Disposable {
    // A copy, because a handler may subscribe twice.
    const own: ViewHandler<T> = {
      onChange: (change, of) => handler.onChange?.(change, of),
      onState: (of) => handler.onState?.(of),
    };
    this.#handlers.set(own, new Map());
    for (const member of this.#members.values()) this.#follow(own, member);
    return {
      [Symbol.dispose]: () => {
        for (const subscription of this.#handlers.get(own)?.values() ?? []) subscription[Symbol.dispose]();
        this.#handlers.delete(own);
      },
    };
  }

  join(cluster: ViewedCluster, informers: SharedInformers, metrics: MetricsRegistry): Component {
    const { name } = cluster;
    const shared = informers.informer<T>({
      ...this.#request,
      metrics,
      log: this.#log,
      name: `${nameOfResource(this.#request.resource).replaceAll(".", "-")}-${name}`,
      optional: true,
      staleAfterMs: STALE_MS,
      onMissing: () => this.update(name),
      onState: (what) => {
        if (what === "snapshot") {
          member.epoch = cluster.epoch;
          this.#tellState(member);
        } else this.update(name);
      },
    });
    const member: Member<T> = { cluster, shared, epoch: undefined, told: "unsynced" };
    this.#members.set(name, member);
    for (const handler of this.#handlers.keys()) this.#follow(handler, member);
    this.#tell(name);
    return shared.informer;
  }

  leave(of: ClusterName): void {
    if (!this.#members.delete(of)) return;
    for (const subscriptions of this.#handlers.values()) {
      subscriptions.get(of)?.[Symbol.dispose]();
      subscriptions.delete(of);
    }
    this.#tell(of);
  }

  update(of: ClusterName): void {
    const member = this.#members.get(of);
    if (member === undefined) return;
    if (this.state(of) !== member.told) this.#tellState(member);
  }

  #tellState(member: Member<T>): void {
    const { name } = member.cluster;
    member.told = this.state(name);
    this.#tell(name);
  }

  #followHolders(): Holders {
    const holders = new Holders();
    this.subscribe({
      onChange: ({ type, object }, of) => {
        if (type === "added") holders.add(pathOf(object.metadata), of);
        if (type === "deleted") holders.delete(pathOf(object.metadata), of);
      },
      // Of a snapshot that is told of as a whole, the changes come later.
      onState: (of) => {
        if (this.#members.has(of))
          for (const { metadata } of this.list(of)) holders.add(pathOf(metadata), of);
        else holders.leave(of);
      },
    });
    return holders;
  }

  /** The informer of a cluster whose objects count. */
  #informer(of: ClusterName): Informer<T> | undefined {
    const member = this.#members.get(of);
    if (member === undefined || member.epoch !== member.cluster.epoch) return undefined;
    return member.shared.isMissing ? undefined : member.shared.informer;
  }

  #follow(handler: ViewHandler<T>, { cluster: { name }, shared: { informer } }: Member<T>): void {
    const subscription = informer.subscribe({ onChange: (change) => handler.onChange?.(change, name) });
    this.#handlers.get(handler)?.set(name, subscription);
  }

  #tell(of: ClusterName): void {
    for (const handler of this.#handlers.keys()) {
      try {
        handler.onState?.(of);
      } catch (error) {
        this.#log.error("a handler of the view failed", { cluster: of, error: String(error) });
      }
    }
  }
}

/** Which changes of a view count, and the keys that they request. */
export interface WatchViewOptions<T extends KubeObject, K = ObjectKey> {
  readonly view: FleetView<T>;
  readonly predicate?: (change: Change<T>, of: ClusterName) => boolean;
  /** Default: the key of the object. */
  readonly map?: (change: Change<T>, of: ClusterName) => Iterable<K>;
}

/** A source that requests keys when objects of a view change. As `watchFor`, those of a snapshot come at low priority. */
export function watchView<T extends KubeObject>(options: WatchViewOptions<T>): Source<ObjectKey> {
  const { view, predicate, map = (change, of) => [keyOf(of, change.object)] } = options;
  return {
    start: (enqueue) =>
      view.subscribe({
        onChange: (change, of) => {
          if (predicate !== undefined && !predicate(change, of)) return;
          const priority = isInitial(change) ? "low" : "high";
          for (const key of map(change, of)) enqueue(key, { priority });
        },
      }),
  };
}
