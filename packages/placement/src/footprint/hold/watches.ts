/** Watches the owners under a hold, and the objects that they own while their deletion waits. */
import type { ReadAt } from "@berth/host";
import type { KubeClient, KubeObject, Pod } from "@berth/kube";
import type { Change, Component, ObjectKey, Running } from "@berth/runtime";
import { isRuleKnown } from "../../node/capability.ts";
import type { Footprint, Footprints, GroupVersionResource, OwnerHold } from "../footprint.ts";
import type { FootprintObservations, HeldOwner } from "../footprint-observations.ts";
import type { Guard, OwnedObject } from "./decide.ts";
import { isAbandoned } from "./held-pods.ts";
import { guardName, resourceName } from "./held-resource.ts";
import { BY_OWNER, BY_UID, ObjectWatches, refsOf } from "./object-watches.ts";
import { HoldRights } from "./rights.ts";

/** An owner of some resource. `toOwnerText` is unique for each key. */
export interface OwnerKey extends ObjectKey {
  /** The result of `resourceName`. */
  readonly resource: string;
}

export interface HoldWatchesOptions extends ReadAt {
  readonly client: Pick<KubeClient, "create">;
  /** Reads the owners of pods. */
  readonly observations: Pick<FootprintObservations, "owners">;
  /** The owner needs a check. Must not throw. */
  readonly onOwner: (key: OwnerKey) => void;
  /** Berth has read the owners of one more resource. Must not throw. */
  readonly onRead?: () => void;
}

export function toOwnerText({ cluster, resource, namespace, name }: OwnerKey): string {
  return `${cluster} ${resource} ${namespace}/${name}`;
}

export interface HoldLook {
  /** Berth is still reading the owners of pods that may be its own. */
  readonly isUnread: boolean;
  /** Uids of pods that were its own. */
  readonly known: ReadonlySet<string>;
}

interface Deleting extends HoldLook {
  readonly key: OwnerKey;
  readonly uid: string;
}

/**
 * Guarantees: calls `onOwner` for all owners of a held resource when Berth has read it, and when holds change. During a
 * deletion, it also does so when owned objects or possible pods of the owner change. Calls may name too many owners,
 * and Berth also checks waiting owners every few seconds. Berth removes an unwanted finalizer from every owner before
 * it stops watching the resource. A footprint with an unreadable document stays in force. A missing resource, such as
 * one before its CRD, is no problem: Berth keeps checking for it.
 */
export class HoldWatches implements Component {
  readonly name = "footprint-held";
  readonly #options: HoldWatchesOptions;
  /** By `guardName`. */
  #guards = new Map<string, Guard>();
  /** Owners, and what these own. */
  readonly #objects: ObjectWatches;
  readonly #rights: HoldRights;
  /** Owners whose deletion waits for a finalizer of Berth, by `toOwnerText`. */
  readonly #deleting = new Map<string, Deleting>();

  constructor(options: HoldWatchesOptions) {
    const { onOwner, onRead, observations: _, ...watching } = options;
    this.#options = options;
    this.#objects = new ObjectWatches({
      ...watching,
      onChange: (resource, change) => {
        const before = change.type === "updated" ? refsOf(change.old) : [];
        const uids = new Set([...refsOf(change.object), ...before]);
        for (const { key, uid } of this.#deleting.values()) if (uids.has(uid)) onOwner(key);
        if (this.guards(resourceName(resource)).length > 0) this.#ownerChanged(resource, change);
      },
      onKnown: () => {
        this.#refresh();
        onRead?.();
      },
    });
    this.#rights = new HoldRights(options);
  }

  /** Sets the footprints in force. Call it at any time, also before `start`. */
  want(footprints: Footprints): void {
    const guards = new Map<string, Guard>();
    for (const footprint of footprints.footprints) {
      const { hold } = footprint;
      if (hold === undefined) continue;
      const { resource, finalizer } = hold;
      const key = guardName(hold);
      if (!guards.has(key)) guards.set(key, { resource, finalizer, footprint });
    }
    for (const [key, guard] of this.#guards) {
      const stays = guard.footprint && isUndecided(guard.footprint, footprints);
      if (!guards.has(key)) guards.set(key, { ...guard, footprint: stays ? guard.footprint : undefined });
    }
    this.#guards = guards;
    this.#refresh();
  }

  /** All footprints that hold owners, also those whose document is faulty or unread. Berth must watch their pods. */
  get footprints(): readonly Footprint[] {
    return [...this.#guards.values()].flatMap(({ footprint }) => footprint ?? []);
  }

  /** Sorted by finalizer. */
  guards(resource: string): readonly Guard[] {
    return [...this.#guards.values()]
      .filter((guard) => resourceName(guard.resource) === resource)
      .sort((a, b) => (a.finalizer < b.finalizer ? -1 : 1));
  }

  owner(key: OwnerKey): HeldOwner | undefined {
    const resource = this.#resourceNamed(key.resource);
    const object = resource && this.#objects.get({ resource, namespace: "" })?.get(key);
    const { uid, resourceVersion, finalizers = [], deletionTimestamp } = object?.metadata ?? {};
    if (resource === undefined || uid === undefined || resourceVersion === undefined) return undefined;
    return {
      resource,
      namespace: key.namespace,
      name: key.name,
      uid,
      resourceVersion,
      finalizers,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    };
  }

  /**
   * Objects of the owned resources of the guard that name this owner and no other; `undefined` until Berth has read
   * all. A resource that the API server does not have has no objects. An object with another owner lives on: the
   * garbage collector only removes the reference, after this owner is gone.
   */
  owned({ footprint }: Guard, { namespace, uid }: HeldOwner): readonly OwnedObject[] | undefined {
    const all: OwnedObject[] = [];
    for (const resource of footprint?.hold?.ownedResources ?? []) {
      const place = { resource, namespace };
      if (this.#objects.isMissing(place)) continue;
      const objects = this.#objects.get(place)?.byIndex(BY_OWNER, uid);
      if (objects === undefined) return undefined;
      for (const object of objects)
        if (refsOf(object).every((ref) => ref === uid)) all.push(toOwned(resource, object));
    }
    return all;
  }

  /** Uids of the owners of an owned object; `undefined` when there is none of this uid. */
  refsOf({ footprint }: Guard, namespace: string, uid: string): readonly string[] | undefined {
    for (const resource of footprint?.hold?.ownedResources ?? []) {
      const [object] = this.#objects.get({ resource, namespace })?.byIndex(BY_UID, uid) ?? [];
      if (object !== undefined) return refsOf(object);
    }
    return undefined;
  }

  /** See `HoldRights`. */
  missing(guard: Guard, namespace: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#rights.missing(guard, namespace, signal);
  }

  /** Checks waiting owners, and owners without a finalizer. Call it when data that decides about pods has changed. */
  lookAgain(): void {
    for (const { key } of this.#deleting.values()) this.#options.onOwner(key);
    for (const { resource, finalizer, footprint } of this.#guards.values())
      for (const object of footprint === undefined ? [] : this.#list(resource)) {
        const { finalizers = [], deletionTimestamp } = object.metadata ?? {};
        if (deletionTimestamp === undefined && !finalizers.includes(finalizer))
          this.#options.onOwner(this.#keyOf(resource, object));
      }
  }

  /** Checks the owners that the pod belongs to, or may have belonged to. */
  podChanged(change: Change<Pod>): void {
    if (change.type === "updated") this.#lookFor(change.old);
    this.#lookFor(change.object, change.type === "deleted");
  }

  /** Berth now knows the owners of this pod. Checks these, and every owner whose last check lacked such data. */
  ownersKnown(pod: Pod): void {
    this.#lookFor(pod);
    for (const { key, isUnread } of this.#deleting.values()) if (isUnread) this.#options.onOwner(key);
  }

  looked(key: OwnerKey, look: HoldLook): void {
    const text = toOwnerText(key);
    const entry = this.#deleting.get(text);
    if (entry !== undefined) this.#deleting.set(text, { ...entry, ...look });
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#objects.start(signal);
  }

  note(): string | undefined {
    return this.#objects.note();
  }

  /** Why data about its owners, or what they own, is incomplete. No `problem` of the whole process. */
  whyUnread(hold: OwnerHold): string | undefined {
    const resource = this.#resourceNamed(resourceName(hold.resource)) ?? hold.resource;
    return this.#objects.whyUnread([resource, ...hold.ownedResources]) ?? this.#rights.why(hold);
  }

  /** Whether Berth has read these owners. `Absent`: the API server has no such resource, so Berth holds none of it. */
  sightOf(named: GroupVersionResource): "Unread" | "Absent" | "Read" {
    const resource = this.#resourceNamed(resourceName(named)) ?? named;
    const place = { resource, namespace: "" };
    if (this.#objects.whyUnread([resource]) !== undefined) return "Unread";
    if (this.#objects.isMissing(place)) return "Absent";
    return this.#objects.get(place) === undefined ? "Unread" : "Read";
  }

  /** A deleted pod with unknown owners may be of any owner near it. For others, `ownersKnown` searches again. */
  #lookFor(pod: Pod, isGone = false): void {
    if (this.#deleting.size === 0) return;
    const { uid: podUid = "", namespace, labels } = pod.metadata ?? {};
    const chain = this.#options.observations.owners(pod);
    const uids = new Set([...(chain ?? []).map(({ uid }) => uid), ...Object.values(labels ?? {})]);
    const mayBeOfAny = chain === undefined ? isGone : isAbandoned(pod, chain);
    for (const { key, uid, known } of this.#deleting.values()) {
      const isNear = key.namespace === "" || key.namespace === namespace;
      if (uids.has(uid) || known.has(podUid) || (mayBeOfAny && isNear)) this.#options.onOwner(key);
    }
  }

  /** Berth watches one version of each resource. Versions of footprints win over those of finalizers to remove. */
  #resourceNamed(name: string): GroupVersionResource | undefined {
    const guards = this.guards(name);
    return (guards.find(({ footprint }) => footprint !== undefined) ?? guards[0])?.resource;
  }

  #resources(): readonly GroupVersionResource[] {
    const names = new Set(Array.from(this.#guards.values(), ({ resource }) => resourceName(resource)));
    return [...names].flatMap((name) => this.#resourceNamed(name) ?? []);
  }

  /** Checks all owners. Call it when holds change, or when Berth has read a resource. */
  #refresh(): void {
    this.#deleting.clear();
    const all = this.#resources().flatMap((resource) =>
      this.#list(resource).map((object) => ({ key: this.#keyOf(resource, object), object })),
    );
    for (const { key, object } of all) this.#note(key, object);
    this.#settle();
    this.#watch();
    for (const { key } of all) this.#options.onOwner(key);
  }

  #ownerChanged(resource: GroupVersionResource, { type, object }: Change<KubeObject>): void {
    const key = this.#keyOf(resource, object);
    const isNews = this.#note(key, type === "deleted" ? {} : object);
    if (this.#settle() || isNews) this.#watch();
    this.#options.onOwner(key);
  }

  /** Records whether the deletion of the owner waits. Returns whether that changed. */
  #note(key: OwnerKey, { metadata }: KubeObject): boolean {
    const { finalizers = [], deletionTimestamp, uid = "" } = metadata ?? {};
    const text = toOwnerText(key);
    const isHeld =
      deletionTimestamp !== undefined &&
      this.guards(key.resource).some(({ finalizer }) => finalizers.includes(finalizer));
    if (!isHeld) return this.#deleting.delete(text);
    const before = this.#deleting.get(text);
    if (before?.uid !== uid) this.#deleting.set(text, { key, uid, isUnread: false, known: new Set() });
    return before === undefined;
  }

  /** Drops guards without a footprint whose finalizer is on no owner. Returns whether there were any. */
  #settle(): boolean {
    const { size } = this.#guards;
    for (const [key, { resource, finalizer, footprint }] of this.#guards) {
      if (footprint !== undefined || this.sightOf(resource) !== "Read") continue;
      if (this.#list(resource).some(({ metadata }) => metadata?.finalizers?.includes(finalizer))) continue;
      this.#guards.delete(key);
    }
    return this.#guards.size < size;
  }

  /** Watches all owners, and owned objects only in namespaces where a deletion waits. */
  #watch(): void {
    const owned = [...this.#deleting.values()].flatMap(({ key: { resource: name, namespace } }) =>
      this.guards(name).flatMap(({ footprint }) =>
        (footprint?.hold?.ownedResources ?? []).map((resource) => ({ resource, namespace })),
      ),
    );
    this.#objects.want([...this.#resources().map((resource) => ({ resource, namespace: "" })), ...owned]);
  }

  #list(named: GroupVersionResource): readonly KubeObject[] {
    const resource = this.#resourceNamed(resourceName(named));
    return [...((resource && this.#objects.get({ resource, namespace: "" })?.list()) ?? [])];
  }

  #keyOf(resource: GroupVersionResource, { metadata }: KubeObject): OwnerKey {
    const { namespace = "", name = "" } = metadata ?? {};
    return { cluster: this.#options.cluster, resource: resourceName(resource), namespace, name };
  }
}

/** Is its document neither in force nor known to be gone? */
function isUndecided({ rule, name }: Footprint, { footprints, policy, faults }: Footprints): boolean {
  // A document of another source with the same name may take precedence.
  if (footprints.some((footprint) => footprint.rule === rule || footprint.name === name)) return false;
  if (faults.some((fault) => `${fault.source}/${fault.name}` === rule)) return true;
  return policy.rules.has(rule) || !isRuleKnown(policy, rule);
}

function toOwned(resource: GroupVersionResource, { metadata }: KubeObject): OwnedObject {
  const { namespace = "", name = "", uid = "", resourceVersion = "", deletionTimestamp } = metadata ?? {};
  return { resource, namespace, name, uid, resourceVersion, isDeleting: deletionTimestamp !== undefined };
}
