/** Which pods keep the deletion of an owner waiting. */
import type { Pod } from "@berth/kube";
import { ownValue } from "../../node/mark.ts";
import { controllerOf, isWorkload } from "../../node/owner-reference.ts";
import type { Footprint } from "../footprint.ts";
import type { FootprintSight, OwnerIdentity } from "../footprint-sight.ts";
import { isGroupedByOwner } from "../groups.ts";
import { type NeedSight, podNeeds } from "../needs.ts";
import { isSameResource } from "./held-resource.ts";

/** What has to be known of pods. Read from memory; `undefined` is always "not known yet". */
export interface HeldPodsSight extends NeedSight, Pick<FootprintSight, "owners"> {
  /** All pods that the workloads of the footprint may select, with a node or without. */
  podsOf(footprint: Footprint, among: PodsAmong): Iterable<Pod> | undefined;
}

/** Which pods are asked for; without either, all. */
export interface PodsAmong {
  /** Those in this namespace. */
  readonly namespace?: string;
  /** Those of which some label has this uid as its value, in all namespaces. */
  readonly labelledUid?: string;
}

/** What is known of one owner that is being deleted. */
export interface DeletedOwner {
  readonly namespace: string;
  readonly uid: string;
  /** Uids of the owners of an object of the owned resources; `undefined`: there is no such object. */
  readonly refsOf: (uid: string) => readonly string[] | undefined;
  /** Uids of pods that were its own when last looked at. Those found are added. */
  readonly known: Set<string>;
  /** The garbage collector has orphaned what it owned, or is about to. */
  readonly isOrphaned: boolean;
  /** The garbage collector deletes all that it owns, while it is still there. */
  readonly isForeground: boolean;
}

export interface HeldPods {
  /** `undefined` while some of them are not known. */
  readonly pods: readonly Pod[] | undefined;
  /** Owners of some that may be among them are not known: they have been asked for. */
  readonly isUnread: boolean;
}

/** Pods whose owners one look asks for. The next ones are asked for once these are known. */
export const MAX_UNREAD = 1_000;

/** Bound or not, for a pod that is to be scheduled needs the agent a moment later. */
export function podsOfOwner(footprint: Footprint, owner: DeletedOwner, sight: HeldPodsSight): HeldPods {
  const all = sight.podsOf(footprint, {
    ...(isGroupedByOwner(footprint) && owner.namespace !== "" && { namespace: owner.namespace }),
    ...(footprint.grouping.by === "PodLabel" && { labelledUid: owner.uid }),
  });
  if (all === undefined) return { pods: undefined, isUnread: false };
  const pods: Pod[] = [];
  let unread = 0;
  let isKnown = true;
  for (const pod of all) {
    if (!isOfGroup(footprint, pod, owner)) continue;
    const needs = podNeeds(pod, footprint, sight);
    if (needs === "no") continue;
    const chain = sight.owners(pod);
    if (chain === undefined) unread++;
    // Of another owner: whether it counts does not matter, and what becomes of it is not told to this one.
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

/** What an owner in a namespace owns is in that namespace; who believes a label, believes it of any pod. */
function isOfGroup(footprint: Footprint, { metadata }: Pod, { namespace, uid }: DeletedOwner): boolean {
  const { grouping } = footprint;
  if (isGroupedByOwner(footprint) && namespace !== "" && metadata?.namespace !== namespace) return false;
  return grouping.by !== "PodLabel" || ownValue(metadata?.labels, grouping.label) === uid;
}

/**
 * Whoever made it, or made that, has gone before it, and the garbage collector ends it soon. Of kinds that the collector may
 * not know either it is never told that they are gone.
 */
export function isAbandoned({ metadata }: Pod, chain: readonly OwnerIdentity[]): boolean {
  const last = chain.at(-1);
  if (last !== undefined) return last.isAbandoned === true;
  const controller = controllerOf(metadata ?? {});
  return controller !== undefined && isWorkload(controller);
}

/** A pod, as one of the chain below its owner. */
const POD = { group: "", resource: "pods" };

/**
 * Nobody deletes what the owner itself controls while the owner is there, where that is not among what is deleted with it:
 * to wait for its pods, or for one that is such itself, would be to wait for ever. Whoever makes pods can name an owner. Once
 * the owner is gone, the garbage collector ends them. Under a foreground deletion it does so before.
 *
 * @param below what the owner controls: the pod, or what has made it.
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
 * Does the pod end with the owner? What is above a pod is read at some moment and may be out of date; who owns an object of
 * the owned resources is told by a watch, and so what was orphaned, or taken over by another owner.
 */
function isBound(
  footprint: Footprint,
  pod: Pod,
  chain: readonly OwnerIdentity[],
  owner: DeletedOwner,
): boolean {
  const { uid, refsOf, known, isOrphaned } = owner;
  for (const [at, above] of chain.entries()) {
    // Of what was read above a pod nothing is true any more once it was orphaned; who controls the pod itself is watched.
    if (above.uid === uid)
      return (!isOrphaned || at === 0) && !isLeft(footprint, pod, chain[at - 1] ?? POD, owner);
    const refs = refsOf(above.uid);
    if (refs === undefined) continue;
    // With another owner it lives on, and its pods with it.
    if (refs.includes(uid)) return refs.every((ref) => ref === uid);
    const next = chain[at + 1];
    if (refs.length === 0 || (next !== undefined && !refs.includes(next.uid))) return false;
  }
  // One that is abandoned may be one of the owner's: after a restart nobody knows any more.
  const isKnown = known.has(pod.metadata?.uid ?? "") || isAbandoned(pod, chain);
  if (controllerOf(pod.metadata ?? {}) !== undefined && isKnown) return true;
  const { grouping } = footprint;
  return grouping.by === "PodLabel" && grouping.verify === undefined && !isOrphaned;
}
