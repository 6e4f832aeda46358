/** What owners own whose deletion waits. Of it only metadata is read. */

import { InformerSet, pick, type WantedInformer } from "@berth/host";
import type { KubeClient, KubeObject } from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  type Informer,
  type Logger,
  type MetricsRegistry,
  type Running,
  whenAborted,
} from "@berth/runtime";
import type { GroupVersionResource } from "../footprint.ts";
import type { HeldOwner } from "../footprint-sight.ts";
import type { Guard, OwnedObject } from "./decide.ts";
import { isSameResource, resourceName, resourceOf, versionedName } from "./held-resource.ts";

export interface OwnedWatchesOptions {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /**
   * There is another version of something that owners of these uids own, or owned before it. Also what says nothing new: a
   * deletion that met an older version waits for it. Must not throw.
   */
  readonly onChange: (owners: ReadonlySet<string>) => void;
  /** Something has been read, or is known not to be there. Must not throw. */
  readonly onKnown: () => void;
}

/** The namespaces in which owners of a guard wait. */
export interface WaitingGuard {
  readonly guard: Guard;
  readonly namespaces: ReadonlySet<string>;
}

const BY_OWNER = "owner";
const BY_UID = "uid";

/** One informer for each resource and namespace, for as long as a deletion waits there. */
export class OwnedWatches {
  readonly #options: OwnedWatchesOptions;
  /** By `versionedName`. They stay, without informers: documents name few. */
  readonly #sets = new Map<string, InformerSet<KubeObject>>();
  readonly #runs = new Set<Promise<void>>();
  readonly #failed = Promise.withResolvers<never>();
  #signal: AbortSignal | undefined;

  constructor(options: OwnedWatchesOptions) {
    this.#options = options;
  }

  /** All that wait from now on. At any time, also before `start`. */
  want(waiting: readonly WaitingGuard[]): void {
    const wanted = new Map<string, ReadonlySet<string>>();
    for (const { guard, namespaces } of waiting)
      for (const resource of ownedResources(guard)) {
        const name = versionedName(resource);
        wanted.set(name, namespaces.union(wanted.get(name) ?? new Set()));
        if (!this.#sets.has(name)) this.#sets.set(name, this.#begin(resource));
      }
    for (const [name, set] of this.#sets) set.want([...(wanted.get(name) ?? [])].map(wantedIn));
  }

  /**
   * Objects of the owned resources of the guard that name this owner and no other; `undefined` until all of them have been
   * read. Of a resource that the server does not have there are none. What has another owner lives on: the garbage
   * collector only takes the reference off, once this one is gone.
   */
  owned(guard: Guard, { namespace, uid }: HeldOwner): readonly OwnedObject[] | undefined {
    const all: OwnedObject[] = [];
    for (const resource of ownedResources(guard)) {
      if (this.#sets.get(versionedName(resource))?.isMissing(namespace) === true) continue;
      const objects = this.#in(resource, namespace)?.byIndex(BY_OWNER, uid);
      if (objects === undefined) return undefined;
      for (const object of objects)
        if (refsOf(object).every((ref) => ref === uid)) all.push(toOwned(resource, object));
    }
    return all;
  }

  /** Uids of the owners of an owned object; `undefined` when there is none of this uid. */
  refsOf(guard: Guard, namespace: string, uid: string): readonly string[] | undefined {
    for (const resource of ownedResources(guard)) {
      const [object] = this.#in(resource, namespace)?.byIndex(BY_UID, uid) ?? [];
      if (object !== undefined) return refsOf(object);
    }
    return undefined;
  }

  /** The first of these that cannot be relied on, with why. */
  problem(resources: readonly GroupVersionResource[]): string | undefined {
    for (const resource of resources) {
      const problem = this.#sets.get(versionedName(resource))?.problem();
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  /** Does not wait for a snapshot. Call once. */
  start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    const end = async (): Promise<void> => {
      await whenAborted(signal);
      await Promise.all(this.#runs);
    };
    if (!signal.aborted) for (const set of this.#sets.values()) this.#run(set, signal);
    return Promise.resolve({ ended: Promise.race([end(), this.#failed.promise]) });
  }

  #begin(resource: GroupVersionResource): InformerSet<KubeObject> {
    const { onChange, onKnown, ...options } = this.#options;
    const set = new InformerSet<KubeObject>({
      ...options,
      name: `footprint-owned-${resourceName(resource)}`,
      resource: resourceOf(resource),
      onChange: () => undefined,
      onVersion: (change) => onChange(ownersOf(change)),
      onSynced: onKnown,
      onMissing: onKnown,
    });
    if (this.#signal?.aborted === false) this.#run(set, this.#signal);
    return set;
  }

  #in(resource: GroupVersionResource, namespace: string): Informer<KubeObject> | undefined {
    return this.#sets.get(versionedName(resource))?.get(namespace);
  }

  #run(set: InformerSet<KubeObject>, signal: AbortSignal): void {
    const run: Promise<void> = set
      .start(signal)
      .then(({ ended }) => ended)
      .catch(this.#failed.reject)
      .finally(() => this.#runs.delete(run));
    this.#runs.add(run);
  }
}

function ownedResources({ footprints }: Guard): readonly GroupVersionResource[] {
  const all = footprints.flatMap(({ hold }) => hold?.ownedResources ?? []);
  return all.filter((one, index) => all.findIndex((other) => isSameResource(one, other)) === index);
}

function wantedIn(namespace: string): WantedInformer<KubeObject> {
  return {
    key: namespace,
    scope: { namespace },
    metadataOnly: true,
    project: slimOwned,
    indexes: { [BY_OWNER]: refsOf, [BY_UID]: ({ metadata }) => (metadata?.uid ? [metadata.uid] : []) },
  };
}

function refsOf({ metadata }: KubeObject): readonly string[] {
  return (metadata?.ownerReferences ?? []).map(({ uid }) => uid);
}

/** Before and after. */
function ownersOf(change: Change<KubeObject>): ReadonlySet<string> {
  return new Set([...refsOf(change.object), ...(change.type === "updated" ? refsOf(change.old) : [])]);
}

function toOwned(resource: GroupVersionResource, { metadata }: KubeObject): OwnedObject {
  const { namespace = "", name = "", uid = "", resourceVersion = "", deletionTimestamp } = metadata ?? {};
  return { resource, namespace, name, uid, resourceVersion, isDeleting: deletionTimestamp !== undefined };
}

function slimOwned({ metadata }: KubeObject): KubeObject {
  return {
    metadata: pick(metadata ?? {}, [
      "name",
      "namespace",
      "uid",
      "resourceVersion",
      "deletionTimestamp",
      "ownerReferences",
    ]),
  };
}
