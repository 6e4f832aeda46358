/** Who needs the agent on one node. Pure and total. */
import type { Pod } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import type { NodeView } from "../node/capability.ts";
import { annotationId, labelId, type MarkId, standingValue } from "../node/mark.ts";
import { FOOTPRINT, type Footprint } from "./footprint.ts";
import type { FootprintSight } from "./footprint-sight.ts";
import { claimKey, groupOf, isGroupedByOwner } from "./groups.ts";
import { podNeeds } from "./needs.ts";

/**
 * What one pod that a workload takes, or may take, means for its node. `Ownerless`: it has lost its owner, and counts for it
 * until it ends. `Refused`: it names a group that it does not belong to, and does not count.
 */
export interface PodUse {
  readonly pod: Pod;
  readonly is: "Counts" | "Unknown" | "Ownerless" | "Refused";
  /** Of those that count; `""` where all pods are one group. Absent of one without its owner whose owner is not known. */
  readonly group?: string;
  /** Why it is refused, in words. `forged`: it says what is not so. */
  readonly why?: string;
  readonly forged?: boolean;
}

/** What the pods of a node mean together. */
export interface NodeUse {
  readonly needed: boolean;
  readonly groups: ReadonlySet<string>;
  /** Why there may be more: then nothing that stands is removed. */
  readonly unknown?: Reason;
  readonly refused: readonly PodUse[];
  readonly ownerless: readonly PodUse[];
  /** Claims that stay for pods that are without an owner that is not known. */
  readonly left: ReadonlySet<MarkId>;
  /** For the next look. `undefined`: nothing that it could tell is known yet, or owners do not matter. */
  readonly past: NodePast | undefined;
}

/**
 * What a process knows of a node's pods by having looked at them. The first look ends with all of them known; until then
 * there is no past.
 */
export interface NodePast {
  /** By what pods were grouped: by something else, another owner is asked for. */
  readonly grouping: Footprint["grouping"];
  /** Pods that counted, by uid, and for which group; `undefined`: not known. */
  readonly groups: ReadonlyMap<string, string | undefined>;
  /** Pods of which that could not be told, by uid. */
  readonly untold: ReadonlySet<string>;
  /** Claims that the first look has found and that no pod accounted for, while a pod may be theirs. */
  readonly left: ReadonlySet<MarkId>;
}

/** Of one node, by rule. */
export type NodePasts = ReadonlyMap<string, NodePast>;

type NodeMarks = Pick<NodeView, "node" | "owned">;

/** Each pod of the node that matters; `undefined` while its pods have not been read. @param past default none: a first look. */
export function podUses(
  footprint: Footprint,
  view: NodeMarks,
  sight: FootprintSight,
  past?: NodePast,
): readonly PodUse[] | undefined {
  return lookAt(footprint, view, { sight, past })?.uses;
}

interface Around {
  readonly sight: FootprintSight;
  readonly past: NodePast | undefined;
}

interface Look {
  readonly past: NodePast | undefined;
  readonly uses: readonly PodUse[];
  readonly left: ReadonlySet<MarkId>;
  readonly isComplete: boolean;
}

function lookAt(footprint: Footprint, { node, owned }: NodeMarks, around: Around): Look | undefined {
  const { sight } = around;
  const pods = sight.pods(footprint, node.metadata?.name ?? "");
  if (pods === undefined) return undefined;
  const past = isGroupedAs(footprint, around.past) ? around.past : undefined;
  const read = pods.flatMap((pod) => useOfPod(pod, footprint, sight) ?? []);
  const isComplete = read.every(({ needs, use }) => needs === "yes" && use.is !== "Unknown");
  const open = unaccountedFor(footprint, { node, owned }, read);
  const left = leftOf(read, past, open);
  const uses = read.flatMap(({ needs, use }): readonly PodUse[] => {
    const judged = use.is === "Ownerless" ? judge(use, footprint, { past, open, isComplete }) : use;
    if (needs === "yes") return [judged];
    // One that is refused will not count whatever is read, and may be none that is to be told of.
    return judged.is === "Refused" ? [] : [{ pod: use.pod, is: "Unknown" }];
  });
  return { past, uses, left, isComplete };
}

function isGroupedAs({ grouping }: Footprint, past: NodePast | undefined): boolean {
  return past?.grouping === grouping || JSON.stringify(past?.grouping) === JSON.stringify(grouping);
}

/** What may be of pods without an owner: what the first look has found, and each time one is judged as at a first look. */
function leftOf(
  read: readonly ReadUse[],
  past: NodePast | undefined,
  open: ReadonlySet<MarkId>,
): ReadonlySet<MarkId> {
  if (past === undefined) return open;
  const isAsked = read.some(({ use: { is, pod } }) => is === "Ownerless" && past.untold.has(uidOf(pod)));
  return isAsked ? past.left.union(open) : past.left;
}

/** `group` of one without its owner is what it says. */
interface ReadUse {
  readonly needs: "yes" | "unknown";
  readonly use: PodUse;
}

function useOfPod(pod: Pod, footprint: Footprint, sight: FootprintSight): ReadUse | undefined {
  const needs = podNeeds(pod, footprint, sight);
  if (needs === "no") return undefined;
  const group = groupOf(pod, footprint, sight);
  if (group.is === "none") return undefined;
  if (group.is === "group") return { needs, use: { pod, is: "Counts", group: group.name } };
  if (group.is === "unknown") return { needs, use: { pod, is: "Unknown" } };
  const { why } = group;
  if (group.is === "refused") return { needs, use: { pod, is: "Refused", why, forged: true } };
  const { name } = group;
  return { needs, use: { pod, is: "Ownerless", why, ...(name !== undefined && { group: name }) } };
}

interface Judging extends Pick<Look, "isComplete">, Pick<Around, "past"> {
  /** What stands for nobody that is known. */
  readonly open: ReadonlySet<MarkId>;
}

/**
 * Does a pod without its owner count all the same? Owners go before their pods do, an orphaning deletion leaves pods that
 * still run, and a new owner of the same name may take over what is above them. But whoever makes pods can make one that
 * never had an owner.
 *
 * So it counts for the owner that this process has seen it with. Of what happened before its first look at the node nothing
 * is known but what Berth has recorded there: then a pod may be of a claim that stands and that no other pod accounts for. It
 * is not asked again, but of pods whose owner could not be read until it was gone: what comes without an owner later never had
 * one.
 */
function judge(
  { pod, group, why = "" }: PodUse,
  footprint: Footprint,
  { past, open, isComplete }: Judging,
): PodUse {
  const uid = uidOf(pod);
  // With a label it says what is not so; without, it only looks like a pod of theirs.
  const refused: PodUse = { pod, is: "Refused", why, forged: group !== undefined };
  if (past !== undefined && !past.untold.has(uid)) {
    if (!past.groups.has(uid)) return refused;
    const last = past.groups.get(uid);
    // Its label is another now: that is no owner that went.
    if (last !== undefined && group !== undefined && last !== group) return refused;
    return { pod, is: "Ownerless", ...(last !== undefined && { group: last }) };
  }
  const mayBe = group === undefined ? open.size > 0 : open.has(placeOf(footprint, group));
  if (!mayBe) return refused;
  if (!isComplete) return { pod, is: "Unknown" };
  return { pod, is: "Ownerless", ...(group !== undefined && { group }) };
}

/** Where a group shows: at its claim, or at the label where there are none. */
function placeOf({ claims, label }: Footprint, group: string): MarkId {
  return claims === undefined ? labelId(label.key) : claimId(claims, group);
}

/**
 * What is recorded as ours, of the places where groups show, and for no pod whose owner is there. Nothing without the label:
 * the rest can be forged by the node's kubelet, which may not set every label.
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
  sight: FootprintSight,
  past?: NodePast,
): NodeUse {
  const look = lookAt(footprint, view, { sight, past });
  if (look === undefined) return unread;
  const { uses } = look;
  const of = (is: PodUse["is"]): readonly PodUse[] => uses.filter((use) => use.is === is);
  const ownerless = of("Ownerless");
  const counting = [...of("Counts"), ...ownerless];
  const next = isGroupedByOwner(footprint) ? nextPast(look, footprint) : undefined;
  return {
    needed: counting.length > 0,
    groups: new Set(counting.flatMap(({ group }) => group ?? [])),
    refused: of("Refused"),
    ownerless,
    left: next?.left ?? nothing,
    ...(of("Unknown").length > 0 && { unknown: reasons.FootprintUnknown }),
    past: next,
  };
}

/** What was known of a pod stays known while it is there. */
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
/** What comes meanwhile is not seen, so the next look is a first one. */
const unread: NodeUse = Object.freeze({
  needed: false,
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
