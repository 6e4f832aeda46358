/** Which pods keep the deletion of an owner waiting. */
import type { Pod } from "@berth/kube";
import { ownValue } from "../mark.ts";
import type { Footprint } from "./footprint.ts";
import type { FootprintSight, OwnerIdentity } from "./footprint-sight.ts";
import { isGroupedByOwner } from "./groups.ts";
import { type NeedSight, podNeeds } from "./needs.ts";
import { isWorkload } from "./owner-reference.ts";

/** What has to be known of pods. Read from memory; `undefined` is always "not known yet". */
export interface HeldPodsSight extends NeedSight, Pick<FootprintSight, "owners"> {
  /** All pods that the workloads of the footprint may select, in one namespace or in all, with a node or without. */
  podsOf(footprint: Footprint, namespace?: string): Iterable<Pod> | undefined;
}

/** What is known of one owner that is being deleted. */
export interface DeletedOwner {
  /** `""` for one of the whole cluster. */
  readonly namespace: string;
  readonly uid: string;
  /** Uids of the owners of an object of the owned resources; `undefined`: there is no such object. */
  readonly refsOf: (uid: string) => readonly string[] | undefined;
  /** Uids of pods that were its own when last looked at. Those found are added. */
  readonly known: Set<string>;
  /** The garbage collector has orphaned what it owned, or is about to. */
  readonly isOrphaned: boolean;
  /** The garbage collector deletes all that it owns. */
  readonly isForeground: boolean;
}

/**
 * Pods of the owner that are still there: bound or not, for a pod that is to be scheduled needs the agent a moment later.
 * `undefined` while some of them are not known.
 */
export function podsOfOwner(
  footprint: Footprint,
  owner: DeletedOwner,
  sight: HeldPodsSight,
): readonly Pod[] | undefined {
  const pods = sight.podsOf(
    footprint,
    isGroupedByOwner(footprint) && owner.namespace ? owner.namespace : undefined,
  );
  if (pods === undefined) return undefined;
  const found: Pod[] = [];
  for (const pod of pods) {
    if (!isOfGroup(footprint, pod, owner)) continue;
    const needs = podNeeds(pod, footprint, sight);
    if (needs === "no") continue;
    const chain = sight.owners(pod);
    if (needs === "unknown" || chain === undefined) return undefined;
    if (isLeft(footprint, pod, owner) || !isBound(footprint, pod, chain, owner)) continue;
    owner.known.add(pod.metadata?.uid ?? "");
    found.push(pod);
  }
  return found;
}

/**
 * Can it be one of the owner's at all? What an owner in a namespace owns is in that namespace; who believes a label, believes
 * it of any pod.
 */
function isOfGroup(footprint: Footprint, { metadata }: Pod, { namespace, uid }: DeletedOwner): boolean {
  const { grouping } = footprint;
  if (isGroupedByOwner(footprint) && namespace !== "" && metadata?.namespace !== namespace) return false;
  if (grouping.by === "OwnerUID") return true;
  if (grouping.by !== "PodLabel") return false;
  return ownValue(metadata?.labels, grouping.label) === uid;
}

/**
 * Nobody deletes a pod that the owner itself controls while the owner is there, where pods are not among what is deleted
 * with it: to wait for it would be to wait for ever. Whoever makes pods can name an owner. Once the owner is gone, the
 * garbage collector ends it.
 */
function isLeft({ hold }: Footprint, { metadata }: Pod, { uid, isForeground }: DeletedOwner): boolean {
  if (hold?.onDelete !== "DeleteOwned" || isForeground) return false;
  const { deletionTimestamp, ownerReferences } = metadata ?? {};
  const controller = ownerReferences?.find((it) => it.controller === true);
  if (deletionTimestamp !== undefined || controller?.uid !== uid) return false;
  return !hold.ownedResources.some(({ group, resource }) => group === "" && resource === "pods");
}

/**
 * Does the pod end with the owner? What is above a pod is read at some moment and may be out of date; who owns an object of
 * the owned resources is told by a watch, and so what was orphaned, or taken over by another owner.
 */
function isBound(
  { grouping }: Footprint,
  { metadata }: Pod,
  chain: readonly OwnerIdentity[],
  { uid, refsOf, known, isOrphaned }: DeletedOwner,
): boolean {
  for (const [at, above] of chain.entries()) {
    // Of what was read above a pod nothing is true any more once it was orphaned; who controls the pod itself is watched.
    if (above.uid === uid) return !isOrphaned || at === 0;
    const refs = refsOf(above.uid);
    if (refs === undefined) continue;
    // With another owner it lives on, and its pods with it.
    if (refs.includes(uid)) return refs.every((ref) => ref === uid);
    const next = chain[at + 1];
    if (refs.length === 0 || (next !== undefined && !refs.includes(next.uid))) return false;
  }
  const controller = metadata?.ownerReferences?.find((it) => it.controller === true);
  if (controller !== undefined) {
    // Whoever made it has gone before it, and the garbage collector ends it soon. It may be one of the owner's: after a
    // restart nobody knows any more. Of kinds that the collector may not know either it is never told that they are gone.
    if (known.has(metadata?.uid ?? "") || (chain.length === 0 && isWorkload(controller))) return true;
  }
  return grouping.by === "PodLabel" && grouping.verify === undefined && !isOrphaned;
}
