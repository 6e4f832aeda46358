/** The owners that footprints hold, and what these own while their deletion waits. Of both only metadata is read. */

import { pick } from "@berth/host";
import type { KubeClient, KubeObject, Pod } from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  type Component,
  createInformer,
  type Informer,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
  type Running,
  whenAborted,
} from "@berth/runtime";
import { isRuleKnown } from "../../node/capability.ts";
import type { Footprint, Footprints, GroupVersionResource, OwnerHold } from "../footprint.ts";
import type { FootprintSight, HeldOwner } from "../footprint-sight.ts";
import type { Guard, OwnedObject } from "./decide.ts";
import { DeletingOwners, type HoldLook } from "./deleting-owners.ts";
import { guardName, resourceName, resourceOf } from "./held-resource.ts";
import { OwnedWatches } from "./owned-watches.ts";
import { HoldRights } from "./rights.ts";

/** An owner of some resource. `toOwnerText` tells keys apart. */
export interface OwnerKey extends ObjectKey {
  /** As `resourceName` has it. */
  readonly resource: string;
}

export interface HoldWatchesOptions {
  readonly client: Pick<KubeClient, "list" | "watch" | "create">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of what owners own. */
  readonly metrics?: MetricsRegistry;
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

interface WatchedGuard extends Guard {
  readonly key: string;
}

interface OwnerWatch {
  readonly resource: GroupVersionResource;
  readonly informer: Informer<KubeObject>;
  readonly abort: AbortController;
}

/**
 * Guarantees: all owners of a held resource are looked at when it becomes known and when holds change; one that is being
 * deleted also at each change of what it owns, and of pods that may be its own, and at none of others. A finalizer that no
 * footprint wants any more is taken off every owner before its resource is let out of sight; one whose document has only
 * become unreadable stays in force as it was. A resource that is not there, as before its CRD, is looked for and is no problem.
 */
export class HoldWatches implements Component {
  readonly name = "footprint-held-owners";
  readonly #options: HoldWatchesOptions;
  readonly #guards = new Map<string, WatchedGuard>();
  readonly #owners = new Map<string, OwnerWatch>();
  readonly #owned: OwnedWatches;
  readonly #rights: HoldRights;
  readonly #deleting: DeletingOwners<OwnerKey>;
  readonly #runs = new Set<Promise<void>>();
  readonly #failed = Promise.withResolvers<never>();
  #signal: AbortSignal | undefined;

  constructor(options: HoldWatchesOptions) {
    this.#options = options;
    this.#owned = new OwnedWatches({
      ...options,
      onChange: (uids) => this.#look(this.#deleting.withUid(uids)),
      onKnown: () => this.lookAgain(),
    });
    this.#rights = new HoldRights(options);
    this.#deleting = new DeletingOwners({
      owners: (pod) => options.sight.owners(pod),
      guards: (resource) => this.guards(resource),
      refsOf: (guard, namespace, uid) => this.refsOf(guard, namespace, uid),
    });
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

  /** See `OwnedWatches`. */
  owned(guard: Guard, owner: HeldOwner): readonly OwnedObject[] | undefined {
    return this.#owned.owned(guard, owner);
  }

  /** See `OwnedWatches`. */
  refsOf(guard: Guard, namespace: string, uid: string): readonly string[] | undefined {
    return this.#owned.refsOf(guard, namespace, uid);
  }

  /** See `HoldRights`: before an owner is held. */
  missing(guard: Guard, namespace: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#rights.missing(guard, namespace, signal);
  }

  /**
   * What pods are decided by has changed, in one namespace or anywhere: owners whose deletion waits are looked at; and where
   * it is anywhere, as when pods have been read, those that have no finalizer yet.
   */
  lookAgain(namespace?: string): void {
    this.#look(namespace === undefined ? this.#deleting.keys() : this.#deleting.in(namespace));
    if (namespace === undefined) this.#look([...this.#unguarded()]);
  }

  /** Owners that the pod may be one of, or may have been, are looked at. */
  podChanged(change: Change<Pod>): void {
    if (change.type === "updated") this.#look(this.#deleting.ofPod(change.old, false));
    this.#look(this.#deleting.ofPod(change.object, change.type === "deleted"));
  }

  /** The owners of this pod have become known: so may have been all that a look waited for. */
  ownersKnown(pod: Pod): void {
    this.#look(this.#deleting.ofPod(pod, false));
    this.#look(this.#deleting.known());
  }

  /** An owner was looked at. */
  looked(key: OwnerKey, look: HoldLook): void {
    this.#deleting.looked(toOwnerText(key), look);
  }

  #look(keys: readonly OwnerKey[]): void {
    for (const key of keys) this.#options.onOwner(key);
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
      this.#run(() => this.#followOwned(signal));
    }
    return Promise.resolve({ ended: Promise.race([end(), this.#failed.promise]) });
  }

  /** Why its owners, or what they own, cannot be relied on. No `problem` of the process, which serves other footprints. */
  whyUnread(hold: OwnerHold): string | undefined {
    const owners = this.#owners.get(resourceName(hold.resource))?.informer;
    const problem = owners?.refusal ?? owners?.problem() ?? this.#owned.problem(hold.ownedResources);
    return problem ?? this.#rights.why(hold);
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
    if (await informer.whenSynced(abort.signal)) this.#options.onRead?.();
    await ended;
  }

  async #followOwned(signal: AbortSignal): Promise<void> {
    const { ended } = await this.#owned.start(signal);
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
    const { finalizers = [], deletionTimestamp, uid = "" } = object.metadata ?? {};
    const isHeld =
      !isGone &&
      deletionTimestamp !== undefined &&
      this.guards(name).some(({ finalizer }) => finalizers.includes(finalizer));
    const text = toOwnerText(key);
    return isHeld ? this.#deleting.put(text, key, uid) : this.#deleting.delete(text);
  }

  *#unguarded(): Generator<OwnerKey> {
    for (const [name, { informer }] of this.#owners) {
      const wanted = this.guards(name).filter(({ footprints }) => footprints.length > 0);
      for (const object of informer.list()) {
        const { finalizers = [], deletionTimestamp } = object.metadata ?? {};
        if (deletionTimestamp !== undefined) continue;
        if (wanted.some(({ finalizer }) => !finalizers.includes(finalizer))) yield this.#keyOf(name, object);
      }
    }
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
    this.#deleting.deleteAll(name);
    abort.abort();
  }

  /** What is owned is watched in the namespaces where a deletion waits, and while it does. */
  #wantOwned(): void {
    const waiting = this.#deleting.keys();
    const wanted = [...this.#guards.values()].map((guard) => {
      const name = resourceName(guard.resource);
      const namespaces = waiting.flatMap(({ resource, namespace }) => (resource === name ? [namespace] : []));
      return { guard, namespaces: new Set(namespaces) };
    });
    this.#owned.want(wanted);
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
    const key = guardName(hold);
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

function slimOwner({ metadata }: KubeObject): KubeObject {
  return {
    metadata: pick(metadata ?? {}, [
      "name",
      "namespace",
      "uid",
      "resourceVersion",
      "deletionTimestamp",
      "finalizers",
    ]),
  };
}
