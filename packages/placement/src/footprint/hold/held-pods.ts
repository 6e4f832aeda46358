/** Which pods keep the deletion of an owner waiting. */
import type { Pod } from "@berth/kube";
import { ownValue } from "../../node/mark.ts";
import { controllerOf, isWorkload } from "../../node/owner-reference.ts";
import type { Footprint } from "../footprint.ts";
import type { FootprintObservations, OwnerIdentity } from "../footprint-observations.ts";
import { isGroupedByOwner } from "../groups.ts";
import { type NeedObservations, podNeeds } from "../needs.ts";
import { isSameResource } from "./held-resource.ts";

/** Data about pods. Read from memory; `undefined` always means "not known yet". */
export interface HeldPodsObservations extends NeedObservations, Pick<FootprintObservations, "owners"> {
  /** All pods that the workloads of the footprint may select, with a node or without. */
  podsOf(footprint: Footprint, among: PodsAmong): Iterable<Pod> | undefined;
}

/** Limits the pods to return; without a field, all pods. */
export interface PodsAmong {
  readonly namespace?: string;
  /** Pods with a label whose value is this uid, in all namespaces. */
  readonly labelledUid?: string;
}

/** What is known of one owner that is being deleted. */
export interface DeletedOwner {
  readonly namespace: string;
  readonly uid: string;
  /** Uids of the owners of an object of the owned resources; `undefined`: there is no such object. */
  readonly refsOf: (uid: string) => readonly string[] | undefined;
  /** Uids of pods that belonged to it at the last check. `podsOfOwner` adds the pods that it finds. */
  readonly known: Set<string>;
  /** The garbage collector has orphaned what it owned, or is about to. */
  readonly isOrphaned: boolean;
  /** The garbage collector deletes all that it owns, while it is still there. */
  readonly isForeground: boolean;
}

export interface HeldPods {
  /** `undefined` while some of them are not known. */
  readonly pods: readonly Pod[] | undefined;
  /** The owners of some candidate pods are unknown. Berth is reading them. */
  readonly isUnread: boolean;
}

/** Maximum pods whose owners one check requests. Later checks request the rest. */
export const MAX_UNREAD = 1_000;

/** Includes pods without a node: such a pod needs the agent a moment later. */
export function podsOfOwner(
  footprint: Footprint,
  owner: DeletedOwner,
  observations: HeldPodsObservations,
): HeldPods {
  const all = observations.podsOf(footprint, {
    ...(isGroupedByOwner(footprint) && owner.namespace !== "" && { namespace: owner.namespace }),
    ...(footprint.grouping.by === "PodLabel" && { labelledUid: owner.uid }),
  });
  if (all === undefined) return { pods: undefined, isUnread: false };
  const pods: Pod[] = [];
  let unread = 0;
  let isKnown = true;
  for (const pod of all) {
    if (!isOfGroup(footprint, pod, owner)) continue;
    const needs = podNeeds(pod, footprint, observations);
    if (needs === "no") continue;
    const chain = observations.owners(pod);
    if (chain === undefined) unread++;
    // The pod belongs to another owner: its need does not matter, and it does not become `known`.
    else if (!isBound(footprint, pod, chain, owner)) continue;
    if (chain === undefined || needs === "unknown") isKnown = false;
    else {
      owner.known.add(pod.metadata?.uid ?? "");
      pods.push(pod);
    }
    if (unread >= MAX_UNREAD) break;
  }
  return { pods: isKnown ? pods : undefined, isUnread: unread > 0 };
}

/** A namespaced owner owns only objects of its namespace. An unverified label counts in any namespace. */
function isOfGroup(footprint: Footprint, { metadata }: Pod, { namespace, uid }: DeletedOwner): boolean {
  const { grouping } = footprint;
  if (isGroupedByOwner(footprint) && namespace !== "" && metadata?.namespace !== namespace) return false;
  return grouping.by !== "PodLabel" || ownValue(metadata?.labels, grouping.label) === uid;
}

/**
 * Was a controller above the pod deleted before it? Then the garbage collector deletes the pod soon. True only for
 * built-in workload kinds: the garbage collector may not know other kinds.
 */
export function isAbandoned({ metadata }: Pod, chain: readonly OwnerIdentity[]): boolean {
  const last = chain.at(-1);
  if (last !== undefined) return last.isAbandoned === true;
  const controller = controllerOf(metadata ?? {});
  return controller !== undefined && isWorkload(controller);
}

/** The pod itself, as the lowest member of the chain of owners. */
const POD = { group: "", resource: "pods" };

/**
 * Would a wait for this pod never end? That is so if the owner itself controls an object outside `ownedResources`: no
 * controller deletes it while the owner exists. Users who create pods can name any owner. The garbage collector deletes
 * these pods once the owner is gone; under a foreground deletion, it does so before.
 *
 * @param below the object that the owner controls: the pod, or a controller of the pod.
 */
function isLeft(
  { hold }: Footprint,
  { metadata }: Pod,
  below: Pick<OwnerIdentity, "group" | "resource">,
  { isForeground }: DeletedOwner,
): boolean {
  if (hold?.onDelete !== "DeleteOwned" || isForeground) return false;
  if (metadata?.deletionTimestamp !== undefined) return false;
  return !hold.ownedResources.some((it) => isSameResource(it, below));
}

/**
 * Does the pod end with the owner? Berth reads the chain above a pod once, so it may be out of date. Berth watches the
 * owned resources, so their owner references are current: they show orphaning and new owners.
 */
function isBound(
  footprint: Footprint,
  pod: Pod,
  chain: readonly OwnerIdentity[],
  owner: DeletedOwner,
): boolean {
  const { uid, refsOf, known, isOrphaned } = owner;
  for (const [at, above] of chain.entries()) {
    // After orphaning, the chain above the pod is out of date. The controller of the pod itself is current.
    if (above.uid === uid)
      return (!isOrphaned || at === 0) && !isLeft(footprint, pod, chain[at - 1] ?? POD, owner);
    const refs = refsOf(above.uid);
    if (refs === undefined) continue;
    // An object with another owner lives on, and so do its pods.
    if (refs.includes(uid)) return refs.every((ref) => ref === uid);
    const next = chain[at + 1];
    if (refs.length === 0 || (next !== undefined && !refs.includes(next.uid))) return false;
  }
  // An abandoned pod may belong to the owner: Berth cannot know after a restart.
  const isKnown = known.has(pod.metadata?.uid ?? "") || isAbandoned(pod, chain);
  if (controllerOf(pod.metadata ?? {}) !== undefined && isKnown) return true;
  const { grouping } = footprint;
  return grouping.by === "PodLabel" && grouping.verify === undefined && !isOrphaned;
}
