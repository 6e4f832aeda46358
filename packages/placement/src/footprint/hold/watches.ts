/** The owners that holds are about, and what those own whose deletion waits. */
import type { KubeClient, KubeObject, Pod } from "@berth/kube";
import type { Change, Component, ObjectKey, Running } from "@berth/runtime";
import { isRuleKnown } from "../../node/capability.ts";
import type { Footprint, Footprints, GroupVersionResource, OwnerHold } from "../footprint.ts";
import type { FootprintSight, HeldOwner, Watching } from "../footprint-sight.ts";
import type { Guard, OwnedObject } from "./decide.ts";
import { isAbandoned } from "./held-pods.ts";
import { guardName, resourceName } from "./held-resource.ts";
import { BY_OWNER, BY_UID, ObjectWatches, refsOf } from "./object-watches.ts";
import { HoldRights } from "./rights.ts";

/** An owner of some resource. `toOwnerText` tells keys apart. */
export interface OwnerKey extends ObjectKey {
  /** As `resourceName` has it. */
  readonly resource: string;
}

export interface HoldWatchesOptions extends Watching {
  readonly client: Pick<KubeClient, "list" | "watch" | "create">;
  /** Of pods. */
  readonly sight: Pick<FootprintSight, "owners">;
  /** The owner has to be looked at. Must not throw. */
  readonly onOwner: (key: OwnerKey) => void;
  /** The owners of one more resource have been read. Must not throw. */
  readonly onRead?: () => void;
}

export function toOwnerText({ cluster, resource, namespace, name }: OwnerKey): string {
  return `${cluster} ${resource} ${namespace}/${name}`;
}

export interface HoldLook {
  /** Owners of pods that may be its own are being read. */
  readonly isUnread: boolean;
  /** Uids of pods that were its own. */
  readonly known: ReadonlySet<string>;
}

interface Deleting extends HoldLook {
  readonly key: OwnerKey;
  readonly uid: string;
}

/**
 * Guarantees: all owners of a held resource are looked at when it becomes known and when holds change; one that is being
 * deleted also at changes of what it owns, and of pods that may be its own. These are hints, and may name too many: who waits
 * is looked at every few seconds besides. A finalizer that no footprint wants any more is taken off every owner before its
 * resource is let out of sight; one whose document has only become unreadable stays in force as it was. A resource that is not
 * there, as before its CRD, is looked for and is no problem.
 */
export class HoldWatches implements Component {
  readonly name = "footprint-held";
  readonly #options: HoldWatchesOptions;
  /** By `guardName`. */
  #guards = new Map<string, Guard>();
  /** Owners, and what these own. */
  readonly #objects: ObjectWatches;
  readonly #rights: HoldRights;
  /** Owners with a finalizer of ours whose deletion waits, by the text of their key. */
  readonly #deleting = new Map<string, Deleting>();

  constructor(options: HoldWatchesOptions) {
    const { onOwner, onRead, sight: _, ...watching } = options;
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

  /** The footprints in force from now on. At any time, also before `start`. */
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

  /** All footprints that hold owners: those in force, and those that go on for a fault. Their pods have to be watched. */
  get footprints(): readonly Footprint[] {
    return [...this.#guards.values()].flatMap(({ footprint }) => footprint ?? []);
  }

  /** By finalizer. */
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
   * Objects of the owned resources of the guard that name this owner and no other; `undefined` until all of them have been
   * read. Of a resource that the server does not have there are none. What has another owner lives on: the garbage
   * collector only takes the reference off, once this one is gone.
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

  /** What pods are decided by has changed: owners whose deletion waits are looked at, and those that have no finalizer yet. */
  lookAgain(): void {
    for (const { key } of this.#deleting.values()) this.#options.onOwner(key);
    for (const { resource, finalizer, footprint } of this.#guards.values())
      for (const object of footprint === undefined ? [] : this.#list(resource)) {
        const { finalizers = [], deletionTimestamp } = object.metadata ?? {};
        if (deletionTimestamp === undefined && !finalizers.includes(finalizer))
          this.#options.onOwner(this.#keyOf(resource, object));
      }
  }

  /** Owners that the pod may be one of, or may have been, are looked at. */
  podChanged(change: Change<Pod>): void {
    if (change.type === "updated") this.#lookFor(change.old);
    this.#lookFor(change.object, change.type === "deleted");
  }

  /** The owners of this pod have become known: so may have been all that a look waited for. */
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

  /** Why its owners, or what they own, cannot be relied on. No `problem` of the process, which serves other footprints. */
  whyUnread(hold: OwnerHold): string | undefined {
    const resource = this.#resourceNamed(resourceName(hold.resource)) ?? hold.resource;
    return this.#objects.whyUnread([resource, ...hold.ownedResources]) ?? this.#rights.why(hold);
  }

  /** What is known of these owners. `Absent`: the server has no such resource, and so nothing of it is held. */
  sightOf(named: GroupVersionResource): "Unread" | "Absent" | "Read" {
    const resource = this.#resourceNamed(resourceName(named)) ?? named;
    const place = { resource, namespace: "" };
    if (this.#objects.whyUnread([resource]) !== undefined) return "Unread";
    if (this.#objects.isMissing(place)) return "Absent";
    return this.#objects.get(place) === undefined ? "Unread" : "Read";
  }

  /** Of a pod whose owners are not known nobody is told before they are, except when it is gone: somebody may have waited. */
  #lookFor(pod: Pod, isGone = false): void {
    if (this.#deleting.size === 0) return;
    const { uid: podUid = "", namespace, labels } = pod.metadata ?? {};
    const chain = this.#options.sight.owners(pod);
    const uids = new Set([...(chain ?? []).map(({ uid }) => uid), ...Object.values(labels ?? {})]);
    const mayBeOfAny = chain === undefined ? isGone : isAbandoned(pod, chain);
    for (const { key, uid, known } of this.#deleting.values()) {
      const isNear = key.namespace === "" || key.namespace === namespace;
      if (uids.has(uid) || known.has(podUid) || (mayBeOfAny && isNear)) this.#options.onOwner(key);
    }
  }

  /** One watch for each resource. Versions that somebody still asks for go before those of finalizers that are only to go. */
  #resourceNamed(name: string): GroupVersionResource | undefined {
    const guards = this.guards(name);
    return (guards.find(({ footprint }) => footprint !== undefined) ?? guards[0])?.resource;
  }

  #resources(): readonly GroupVersionResource[] {
    const names = new Set(Array.from(this.#guards.values(), ({ resource }) => resourceName(resource)));
    return [...names].flatMap((name) => this.#resourceNamed(name) ?? []);
  }

  /** All owners are looked at: their resource, or who holds them, was not known. */
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

  /** Is its deletion held? Answers whether that is new. */
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

  /** Lets go of finalizers that nobody wants and nobody has. Answers whether there were any. */
  #settle(): boolean {
    const { size } = this.#guards;
    for (const [key, { resource, finalizer, footprint }] of this.#guards) {
      if (footprint !== undefined || this.sightOf(resource) !== "Read") continue;
      if (this.#list(resource).some(({ metadata }) => metadata?.finalizers?.includes(finalizer))) continue;
      this.#guards.delete(key);
    }
    return this.#guards.size < size;
  }

  /** What is owned is watched in the namespaces where a deletion waits, and while it does. */
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
  // By its name one of another source may go before it.
  if (footprints.some((footprint) => footprint.rule === rule || footprint.name === name)) return false;
  if (faults.some((fault) => `${fault.source}/${fault.name}` === rule)) return true;
  return policy.rules.has(rule) || !isRuleKnown(policy, rule);
}

function toOwned(resource: GroupVersionResource, { metadata }: KubeObject): OwnedObject {
  const { namespace = "", name = "", uid = "", resourceVersion = "", deletionTimestamp } = metadata ?? {};
  return { resource, namespace, name, uid, resourceVersion, isDeleting: deletionTimestamp !== undefined };
}
