/** Finds the pods and groups that need the agent on one node. Pure and total. */
import type { Pod } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import type { NodeView } from "../node/capability.ts";
import { annotationId, labelId, type MarkId, standingValue } from "../node/mark.ts";
import { FOOTPRINT, type Footprint } from "./footprint.ts";
import type { FootprintObservations } from "./footprint-observations.ts";
import { claimKey, groupOf, isGroupedByOwner } from "./groups.ts";
import { podNeeds } from "./needs.ts";

/**
 * What one pod that a workload selects, or may select, means for its node. `Ownerless`: it has lost its owner, and
 * counts for that owner until it ends. `Refused`: it names a group to which it does not belong, and does not count.
 */
export interface PodUse {
  readonly pod: Pod;
  readonly is: "Counts" | "Unknown" | "Ownerless" | "Refused";
  /** Set for pods that count; `""` when all pods form one group. Absent for an ownerless pod of unknown owner. */
  readonly group?: string;
  /** Why the pod is refused, in words. `forged`: its label is wrong. */
  readonly why?: string;
  readonly forged?: boolean;
}

/** What the pods of a node mean together. */
export interface NodeUse {
  readonly needed: boolean;
  /** The pods that matter. */
  readonly uses: readonly PodUse[];
  readonly groups: ReadonlySet<string>;
  /** Why more pods may need the agent: Berth then removes no mark. */
  readonly unknown?: Reason;
  readonly refused: readonly PodUse[];
  readonly ownerless: readonly PodUse[];
  /** Claims that stay for ownerless pods whose owner is unknown. */
  readonly left: ReadonlySet<MarkId>;
  /** For the next check. `undefined`: Berth has not completed a first check, or owners do not matter. */
  readonly past: NodePast | undefined;
}

/**
 * What a process knows of a node's pods from earlier checks. The first check ends when all pods are known; before that,
 * there is no `NodePast`.
 */
export interface NodePast {
  /** How pods were grouped. Another grouping asks for other owners. */
  readonly grouping: Footprint["grouping"];
  /** Pods that counted, by uid, and for which group; `undefined`: not known. */
  readonly groups: ReadonlyMap<string, string | undefined>;
  /** Uids of pods for which that is not known yet. */
  readonly untold: ReadonlySet<string>;
  /** Claims that the first check found and no known pod explains, while some pod may belong to them. */
  readonly left: ReadonlySet<MarkId>;
}

/** Of one node, by rule. */
export type NodePasts = ReadonlyMap<string, NodePast>;

type NodeMarks = Pick<NodeView, "node" | "owned">;

/** Pods of the node that matter; `undefined` until Berth has read its pods. @param past default none: a first check. */
export function podUses(
  footprint: Footprint,
  view: NodeMarks,
  observations: FootprintObservations,
  past?: NodePast,
): readonly PodUse[] | undefined {
  return lookAt(footprint, view, { observations, past })?.uses;
}

interface Around {
  readonly observations: FootprintObservations;
  readonly past: NodePast | undefined;
}

interface Look {
  readonly past: NodePast | undefined;
  readonly uses: readonly PodUse[];
  readonly left: ReadonlySet<MarkId>;
  readonly isComplete: boolean;
}

function lookAt(footprint: Footprint, { node, owned }: NodeMarks, around: Around): Look | undefined {
  const { observations } = around;
  const pods = observations.pods(footprint, node.metadata?.name ?? "");
  if (pods === undefined) return undefined;
  const past = isGroupedAs(footprint, around.past) ? around.past : undefined;
  const read = pods.flatMap((pod) => useOfPod(pod, footprint, observations) ?? []);
  const isComplete = read.every(({ needs, use }) => needs === "yes" && use.is !== "Unknown");
  const open = unaccountedFor(footprint, { node, owned }, read);
  const left = leftOf(read, past, open);
  const uses = read.flatMap(({ needs, use }): readonly PodUse[] => {
    const judged = use.is === "Ownerless" ? judge(use, footprint, { past, open, isComplete }) : use;
    if (needs === "yes") return [judged];
    // A refused pod never counts, whatever Berth reads. It may not match the workload, so do not report it.
    return judged.is === "Refused" ? [] : [{ pod: use.pod, is: "Unknown" }];
  });
  return { past, uses, left, isComplete };
}

function isGroupedAs({ grouping }: Footprint, past: NodePast | undefined): boolean {
  return past?.grouping === grouping || JSON.stringify(past?.grouping) === JSON.stringify(grouping);
}

/** Claims that may belong to ownerless pods: those of the first check, and the open ones if a pod is still untold. */
function leftOf(
  read: readonly ReadUse[],
  past: NodePast | undefined,
  open: ReadonlySet<MarkId>,
): ReadonlySet<MarkId> {
  if (past === undefined) return open;
  const isAsked = read.some(({ use: { is, pod } }) => is === "Ownerless" && past.untold.has(uidOf(pod)));
  return isAsked ? past.left.union(open) : past.left;
}

/** `group` of an ownerless pod is the value of its label. */
interface ReadUse {
  readonly needs: "yes" | "unknown";
  readonly use: PodUse;
}

function useOfPod(pod: Pod, footprint: Footprint, observations: FootprintObservations): ReadUse | undefined {
  const needs = podNeeds(pod, footprint, observations);
  if (needs === "no") return undefined;
  const group = groupOf(pod, footprint, observations);
  if (group.is === "none") return undefined;
  if (group.is === "group") return { needs, use: { pod, is: "Counts", group: group.name } };
  if (group.is === "unknown") return { needs, use: { pod, is: "Unknown" } };
  const { why } = group;
  if (group.is === "refused") return { needs, use: { pod, is: "Refused", why, forged: true } };
  const { name } = group;
  return { needs, use: { pod, is: "Ownerless", why, ...(name !== undefined && { group: name }) } };
}

interface Judging extends Pick<Look, "isComplete">, Pick<Around, "past"> {
  /** Marks that no known pod explains. */
  readonly open: ReadonlySet<MarkId>;
}

/**
 * Does a pod without its owner count? Users may delete an owner before its pods, or with orphaning, and the pods still
 * run. A new owner of the same name may take over the objects above them. But users can also create a pod that never
 * had an owner.
 *
 * So the pod counts for the owner with which this process saw it. For the time before its first check of the node, the
 * process knows only what Berth recorded there. At that check, the pod may belong to an existing claim that no other
 * pod explains. Later checks ask this only about pods whose owner was unreadable until it was gone. Other pods that
 * appear without an owner never had one.
 */
function judge(
  { pod, group, why = "" }: PodUse,
  footprint: Footprint,
  { past, open, isComplete }: Judging,
): PodUse {
  const uid = uidOf(pod);
  // With a label, the pod names a wrong group. Without one, it only looks like a pod of a group.
  const refused: PodUse = { pod, is: "Refused", why, forged: group !== undefined };
  if (past !== undefined && !past.untold.has(uid)) {
    if (!past.groups.has(uid)) return refused;
    const last = past.groups.get(uid);
    // Its label has changed, so it did not lose an owner.
    if (last !== undefined && group !== undefined && last !== group) return refused;
    return { pod, is: "Ownerless", ...(last !== undefined && { group: last }) };
  }
  const mayBe = group === undefined ? open.size > 0 : open.has(placeOf(footprint, group));
  if (!mayBe) return refused;
  if (!isComplete) return { pod, is: "Unknown" };
  return { pod, is: "Ownerless", ...(group !== undefined && { group }) };
}

/** The mark of a group: its claim, or the label when there are no claims. */
function placeOf({ claims, label }: Footprint, group: string): MarkId {
  return claims === undefined ? labelId(label.key) : claimId(claims, group);
}

/**
 * Recorded marks of groups that no pod with an existing owner explains. None without the label: the kubelet of the node
 * can forge the other marks, but may not set every label.
 */
function unaccountedFor(
  footprint: Footprint,
  { node, owned }: NodeMarks,
  read: readonly ReadUse[],
): ReadonlySet<MarkId> {
  const { claims, label } = footprint;
  const place = labelId(label.key);
  if (!isGroupedByOwner(footprint) || standingValue(node, place) !== label.value) return nothing;
  const counted = new Set(
    read.flatMap(({ needs, use: { is, group = "" } }) =>
      needs === "yes" && is === "Counts" ? [placeOf(footprint, group)] : [],
    ),
  );
  const isPlace = (id: MarkId): boolean =>
    claims === undefined ? id === place : id.startsWith(annotationId(claims.annotationPrefix));
  const ours = [...owned].flatMap(([id, { capability }]) => (capability === FOOTPRINT ? [id] : []));
  return new Set(ours.filter((id) => isPlace(id) && !counted.has(id)));
}

export function claimId({ annotationPrefix }: NonNullable<Footprint["claims"]>, group: string): MarkId {
  return annotationId(claimKey(annotationPrefix, group));
}

/** All pods of a node together. Their order does not matter. @param past see `podUses`. */
export function useOf(
  footprint: Footprint,
  view: NodeMarks,
  observations: FootprintObservations,
  past?: NodePast,
): NodeUse {
  const look = lookAt(footprint, view, { observations, past });
  if (look === undefined) return unread;
  const { uses } = look;
  const of = (is: PodUse["is"]): readonly PodUse[] => uses.filter((use) => use.is === is);
  const ownerless = of("Ownerless");
  const counting = [...of("Counts"), ...ownerless];
  const next = isGroupedByOwner(footprint) ? nextPast(look, footprint) : undefined;
  return {
    needed: counting.length > 0,
    uses,
    groups: new Set(counting.flatMap(({ group }) => group ?? [])),
    refused: of("Refused"),
    ownerless,
    left: next?.left ?? nothing,
    ...(of("Unknown").length > 0 && { unknown: reasons.FootprintUnknown }),
    past: next,
  };
}

/** Keeps what is known of a pod while the pod exists. */
function nextPast({ past, uses, left, isComplete }: Look, { grouping }: Footprint): NodePast | undefined {
  if (past === undefined && !isComplete) return undefined;
  const groups = new Map<string, string | undefined>();
  const untold = new Set<string>();
  for (const { pod, is, group } of uses) {
    const uid = uidOf(pod);
    if (is === "Counts" || is === "Ownerless") groups.set(uid, group);
    else if (past?.groups.has(uid)) groups.set(uid, past.groups.get(uid));
    else if (is === "Unknown") untold.add(uid);
  }
  return { grouping, groups, untold, left: [...groups.values()].includes(undefined) ? left : nothing };
}

const nothing: ReadonlySet<MarkId> = new Set();
/** Berth does not see the pods that come meanwhile, so the next check is a first one. */
const unread: NodeUse = Object.freeze({
  needed: false,
  uses: [],
  groups: new Set<string>(),
  refused: [],
  ownerless: [],
  left: nothing,
  unknown: reasons.FootprintUnknown,
  past: undefined,
});

function uidOf({ metadata }: Pod): string {
  return metadata?.uid ?? "";
}
