/** The owners that footprints hold, and what these own while their deletion waits. Of both only metadata is read. */
import { defineResource, type KubeClient, type KubeObject, type Resource } from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  type Component,
  createInformer,
  type Informer,
  type Logger,
  type ObjectKey,
  type Running,
  whenAborted,
} from "@berth/runtime";
import { isRuleKnown } from "../capability.ts";
import { InformerSet, pick } from "../informer-set.ts";
import { type Guard, isSameResource, type OwnedObject } from "./decide-hold.ts";
import type { Footprint, Footprints, GroupVersionResource, OwnerHold } from "./footprint.ts";
import type { HeldOwner } from "./footprint-sight.ts";

/** An owner of some resource. `toOwnerText` tells keys apart. */
export interface OwnerKey extends ObjectKey {
  /** As `resourceName` has it. */
  readonly resource: string;
}

export interface HoldWatchesOptions {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  /** The owner has to be looked at. Must not throw. */
  readonly onOwner: (key: OwnerKey) => void;
}

/** `workerpools.ate.dev`, as kubectl names it: versions of one resource are the same objects. */
export function resourceName({ group, resource }: GroupVersionResource): string {
  return group === "" ? resource : `${resource}.${group}`;
}

function versionedName(resource: GroupVersionResource): string {
  return `${resourceName(resource)}/${resource.version}`;
}

export function toOwnerText({ cluster, resource, namespace, name }: OwnerKey): string {
  return `${cluster} ${resource} ${namespace}/${name}`;
}

/** For requests about one object, or about a whole collection. Its kind is not known, and not needed for that. */
export function resourceOf(
  { group, version, resource }: GroupVersionResource,
  isNamespaced = true,
): Resource {
  return defineResource({ group, version, plural: resource, kind: "", namespaced: isNamespaced });
}

interface WatchedGuard extends Guard {
  readonly key: string;
}

interface OwnerWatch {
  readonly resource: GroupVersionResource;
  readonly informer: Informer<KubeObject>;
  readonly abort: AbortController;
}

const BY_OWNER = "owner";
const BY_UID = "uid";

/**
 * Guarantees: all owners of a held resource are looked at when it becomes known and when holds change; one that is being
 * deleted also at each change of what it owns. A finalizer that no footprint wants any more is taken off every owner
 * before its resource is let out of sight; one whose document has only become unreadable stays in force as it was.
 * A resource that is not there, as before its CRD, is looked for and is no problem.
 */
export class HoldWatches implements Component {
  readonly name = "footprint-held-owners";
  readonly #options: HoldWatchesOptions;
  readonly #guards = new Map<string, WatchedGuard>();
  readonly #owners = new Map<string, OwnerWatch>();
  readonly #owned = new Map<string, InformerSet<KubeObject>>();
  readonly #deleting = new Map<string, OwnerKey>();
  readonly #runs = new Set<Promise<void>>();
  readonly #failed = Promise.withResolvers<never>();
  #signal: AbortSignal | undefined;

  constructor(options: HoldWatchesOptions) {
    this.#options = options;
  }

  /** The footprints in force from now on. At any time, also before `start`. */
  want(footprints: Footprints): void {
    if (this.#signal?.aborted) return;
    const guards = guardsOf(footprints.footprints);
    for (const guard of this.#guards.values()) {
      const stays = guard.footprints.filter((footprint) => isUndecided(footprint, footprints));
      const wanted = guards.get(guard.key)?.footprints ?? [];
      const resource = guards.get(guard.key)?.resource ?? guard.resource;
      guards.set(guard.key, { ...guard, resource, footprints: [...wanted, ...stays] });
    }
    this.#guards.clear();
    for (const [key, guard] of guards) this.#guards.set(key, guard);
    // Versions that somebody still asks for go before those of finalizers that are only to go.
    const byUse = [...guards.values()].sort((a, b) => b.footprints.length - a.footprints.length);
    for (const [name, same] of Map.groupBy(byUse, ({ resource }) => resourceName(resource))) {
      const asked = same.filter(({ footprints }) => footprints.length > 0);
      this.#watchOwners(
        name,
        (asked.length > 0 ? asked : same).map(({ resource }) => resource),
      );
    }
    for (const [name, { informer }] of this.#owners)
      for (const object of informer.list()) this.#note(name, object);
    for (const name of this.#owners.keys()) this.#settle(name);
    this.#wantOwned();
    for (const [name, { informer }] of this.#owners)
      for (const object of informer.list()) this.#options.onOwner(this.#keyOf(name, object));
  }

  /** All footprints that hold owners: those in force, and those that go on for a fault. Their pods have to be watched. */
  get footprints(): readonly Footprint[] {
    return [...new Set([...this.#guards.values()].flatMap(({ footprints }) => footprints))];
  }

  /** In order of their finalizers. */
  guards(resource: string): readonly Guard[] {
    return [...this.#guards.values()]
      .filter((guard) => resourceName(guard.resource) === resource)
      .sort((a, b) => (a.finalizer < b.finalizer ? -1 : 1));
  }

  owner(key: OwnerKey): HeldOwner | undefined {
    const watch = this.#owners.get(key.resource);
    const object = watch?.informer.get(key);
    const { uid, resourceVersion, finalizers = [], deletionTimestamp } = object?.metadata ?? {};
    if (watch === undefined || uid === undefined || resourceVersion === undefined) return undefined;
    return {
      resource: watch.resource,
      namespace: key.namespace,
      name: key.name,
      uid,
      resourceVersion,
      finalizers,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    };
  }

  /**
   * Objects of the owned resources of the guard that name this owner and no other; `undefined` until all of them have been
   * read. Of a resource that the server does not have there are none. What has another owner lives on: the garbage
   * collector only takes the reference off, once this one is gone.
   */
  owned(guard: Guard, { namespace, uid }: HeldOwner): readonly OwnedObject[] | undefined {
    const all: OwnedObject[] = [];
    for (const resource of ownedResources([guard])) {
      if (this.#owned.get(versionedName(resource))?.isMissing(namespace) === true) continue;
      const objects = this.#ownedIn(resource, namespace)?.byIndex(BY_OWNER, uid);
      if (objects === undefined) return undefined;
      for (const object of objects)
        if (refsOf(object).every((ref) => ref === uid)) all.push(toOwned(resource, object));
    }
    return all;
  }

  /** Uids of the owners of an owned object; `undefined` when there is none of this uid. */
  refsOf(guard: Guard, namespace: string, uid: string): readonly string[] | undefined {
    for (const resource of ownedResources([guard])) {
      const [object] = this.#ownedIn(resource, namespace)?.byIndex(BY_UID, uid) ?? [];
      if (object !== undefined) return refsOf(object);
    }
    return undefined;
  }

  /** Pods, or what is known about them, have changed: owners whose deletion waits are looked at. */
  lookAgain(): void {
    for (const key of this.#deleting.values()) this.#options.onOwner(key);
  }

  /** Does not wait for a snapshot. Call once. */
  start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    const end = async (): Promise<void> => {
      await whenAborted(signal);
      for (const { abort } of this.#owners.values()) abort.abort();
      await Promise.all(this.#runs);
    };
    if (!signal.aborted) {
      for (const [name, watch] of this.#owners) this.#run(() => this.#follow(name, watch));
      for (const set of this.#owned.values()) this.#run(() => followSet(set, signal));
    }
    return Promise.resolve({ ended: Promise.race([end(), this.#failed.promise]) });
  }

  /** Why its owners, or what they own, cannot be relied on. No `problem` of the process, which serves other footprints. */
  whyUnread({ resource, ownedResources: owned }: OwnerHold): string | undefined {
    const owners = this.#owners.get(resourceName(resource))?.informer;
    const problems = owned.map((one) => this.#owned.get(versionedName(one))?.problem());
    return [owners?.refusal, owners?.problem(), ...problems].find((it) => it !== undefined);
  }

  /** What is known of these owners. `Absent`: the server has no such resource, and so nothing of it is held. */
  sightOf(resource: GroupVersionResource): "Unread" | "Absent" | "Read" {
    const { synced, absent, refusal } = this.#owners.get(resourceName(resource))?.informer ?? {};
    if (absent === true && refusal === undefined) return "Absent";
    return synced === true && refusal === undefined ? "Read" : "Unread";
  }

  /** One watch for each resource, in one of these versions: another that was asked for before may not be served any more. */
  #watchOwners(name: string, versions: readonly GroupVersionResource[]): void {
    const present = this.#owners.get(name);
    const [resource] = versions;
    if (resource === undefined || versions.some(({ version }) => version === present?.resource.version))
      return;
    if (present !== undefined) this.#leave(name, present);
    const { client, cluster, clock, log } = this.#options;
    const informer = createInformer<KubeObject>({
      name: `held-${name}`,
      client,
      cluster,
      resource: resourceOf(resource),
      metadataOnly: true,
      optional: true,
      project: slimOwner,
      clock,
      log,
    });
    const watch: OwnerWatch = { resource, informer, abort: new AbortController() };
    this.#owners.set(name, watch);
    if (this.#signal !== undefined) this.#run(() => this.#follow(name, watch));
  }

  async #follow(name: string, { informer, abort }: OwnerWatch): Promise<void> {
    const tell = (change: Change<KubeObject>): void => {
      if (!abort.signal.aborted) this.#changed(name, change);
    };
    using _subscription = informer.subscribe({ onChange: tell });
    const { ended } = await informer.start(abort.signal);
    await ended;
  }

  #changed(name: string, { type, object }: Change<KubeObject>): void {
    if (this.#note(name, object, type === "deleted")) this.#wantOwned();
    this.#settle(name);
    this.#options.onOwner(this.#keyOf(name, object));
  }

  /** Is its deletion held? Answers whether that is new. */
  #note(name: string, object: KubeObject, isGone = false): boolean {
    const key = this.#keyOf(name, object);
    const { finalizers = [], deletionTimestamp } = object.metadata ?? {};
    const isHeld =
      !isGone &&
      deletionTimestamp !== undefined &&
      this.guards(name).some(({ finalizer }) => finalizers.includes(finalizer));
    const text = toOwnerText(key);
    const was = this.#deleting.has(text);
    if (isHeld) this.#deleting.set(text, key);
    else this.#deleting.delete(text);
    return was !== isHeld;
  }

  /** Lets go of finalizers that nobody wants and nobody has, and of a resource without any. */
  #settle(name: string): void {
    const watch = this.#owners.get(name);
    if (watch === undefined) return;
    const { informer } = watch;
    for (const [key, { resource, finalizer, footprints }] of this.#guards) {
      if (footprints.length > 0 || resourceName(resource) !== name || !informer.synced) continue;
      const has = ({ metadata }: KubeObject): boolean => metadata?.finalizers?.includes(finalizer) ?? false;
      if (!Iterator.from(informer.list()).some(has)) this.#guards.delete(key);
    }
    if (this.guards(name).length > 0) return;
    this.#leave(name, watch);
    this.#wantOwned();
  }

  #leave(name: string, { abort }: OwnerWatch): void {
    this.#owners.delete(name);
    for (const [text, key] of this.#deleting) if (key.resource === name) this.#deleting.delete(text);
    abort.abort();
  }

  /** What is owned is watched in the namespaces where a deletion waits, and while it does. */
  #wantOwned(): void {
    const { onOwner: _, ...options } = this.#options;
    const waiting = [...this.#deleting.values()];
    const wanted = new Map<string, Set<string>>();
    for (const guard of this.#guards.values()) {
      const name = resourceName(guard.resource);
      const namespaces = waiting.flatMap(({ resource, namespace }) => (resource === name ? [namespace] : []));
      for (const resource of ownedResources([guard])) {
        const owned = versionedName(resource);
        wanted.set(owned, (wanted.get(owned) ?? new Set<string>()).union(new Set(namespaces)));
        if (this.#owned.has(owned)) continue;
        const tell = (): void => this.lookAgain();
        const set = new InformerSet<KubeObject>({
          ...options,
          name: `footprint-owned-${resourceName(resource)}`,
          resource: resourceOf(resource),
          onChange: () => undefined,
          // Also what says nothing new: a deletion that met an older version waits for it.
          onVersion: tell,
          onSynced: tell,
          onMissing: tell,
        });
        this.#owned.set(owned, set);
        const signal = this.#signal;
        if (signal !== undefined) this.#run(() => followSet(set, signal));
      }
    }
    for (const [owned, set] of this.#owned)
      set.want([...(wanted.get(owned) ?? [])].map((namespace) => wantedIn(namespace)));
  }

  #ownedIn(resource: GroupVersionResource, namespace: string): Informer<KubeObject> | undefined {
    return this.#owned.get(versionedName(resource))?.get(namespace);
  }

  #keyOf(resource: string, { metadata }: KubeObject): OwnerKey {
    const { namespace = "", name = "" } = metadata ?? {};
    return { cluster: this.#options.cluster, resource, namespace, name };
  }

  #run(start: () => Promise<void>): void {
    const run: Promise<void> = start()
      .catch(this.#failed.reject)
      .finally(() => this.#runs.delete(run));
    this.#runs.add(run);
  }
}

function guardsOf(footprints: readonly Footprint[]): Map<string, WatchedGuard> {
  const guards = new Map<string, WatchedGuard>();
  for (const footprint of footprints) {
    const { hold } = footprint;
    if (hold === undefined) continue;
    const key = `${resourceName(hold.resource)} ${hold.finalizer}`;
    const { resource, finalizer } = hold;
    const others = guards.get(key)?.footprints ?? [];
    guards.set(key, { key, resource, finalizer, footprints: [...others, footprint] });
  }
  return guards;
}

/** Is its document neither in force nor known to be gone? */
function isUndecided({ rule, name }: Footprint, { footprints, policy, faults }: Footprints): boolean {
  // By its name one of another source may go before it.
  if (footprints.some((footprint) => footprint.rule === rule || footprint.name === name)) return false;
  if (faults.some(({ source, footprint }) => `${source}/${footprint}` === rule)) return true;
  return policy.rules.has(rule) || !isRuleKnown(policy, rule);
}

function ownedResources(guards: readonly Guard[]): readonly GroupVersionResource[] {
  const all = guards.flatMap(({ footprints }) =>
    footprints.flatMap(({ hold }) => hold?.ownedResources ?? []),
  );
  return all.filter((one, index) => all.findIndex((other) => isSameResource(one, other)) === index);
}

function wantedIn(namespace: string): Parameters<InformerSet<KubeObject>["want"]>[0][number] {
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

function toOwned(resource: GroupVersionResource, { metadata }: KubeObject): OwnedObject {
  const { namespace = "", name = "", uid = "", resourceVersion = "", deletionTimestamp } = metadata ?? {};
  return { resource, namespace, name, uid, resourceVersion, isDeleting: deletionTimestamp !== undefined };
}

const IDENTITY = ["name", "namespace", "uid", "resourceVersion", "deletionTimestamp"] as const;

function slimOwner({ metadata }: KubeObject): KubeObject {
  return { metadata: pick(metadata ?? {}, [...IDENTITY, "finalizers"]) };
}

function slimOwned({ metadata }: KubeObject): KubeObject {
  return { metadata: pick(metadata ?? {}, [...IDENTITY, "ownerReferences"]) };
}

async function followSet(set: InformerSet<KubeObject>, signal: AbortSignal): Promise<void> {
  const { ended } = await set.start(signal);
  await ended;
}
