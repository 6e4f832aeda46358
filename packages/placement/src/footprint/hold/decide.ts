/** What becomes of an owner with a hold: decided as plain data. The README has the table. */
import type { Pod } from "@berth/kube";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { Instant } from "../../node/capability.ts";
import { firstOf } from "../../node/first-names.ts";
import { nodeOf } from "../../node/pod-nodes.ts";
import type { Footprint, GroupVersionResource } from "../footprint.ts";
import type { HeldOwner } from "../footprint-sight.ts";
import { MAX_HOLDS } from "../resource.ts";
import { isSameResource } from "./held-resource.ts";

/** All that hold owners of one resource by one finalizer. */
export interface Guard {
  readonly resource: GroupVersionResource;
  readonly finalizer: string;
  /** Empty: nobody does any more, and the finalizer is to go. */
  readonly footprints: readonly Footprint[];
}

/** An object that names the owner among its own owners. */
export interface OwnedObject {
  readonly resource: GroupVersionResource;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly isDeleting: boolean;
}

export interface HoldView {
  readonly owner: HeldOwner;
  readonly guard: Guard;
  /** `undefined` while they are not known. Asked for only when the owner is being deleted. */
  readonly owned: readonly OwnedObject[] | undefined;
  /** Pods of the owner that the hold waits for. `undefined` while they are not known. */
  readonly pods: readonly Pod[] | undefined;
  /** Are the pods of all its footprints watched by now? Of one that lives nothing else is asked. */
  readonly arePodsWatched: boolean;
  /** Uids of owned objects whose deletion was asked for already. */
  readonly asked: ReadonlySet<string>;
  /** Why pods on the node cannot end by themselves. `undefined`: they can. */
  readonly lossOf?: ((node: string) => NodeLoss | undefined) | undefined;
  readonly now: Instant;
}

/** The kubelet of a silent node may still run pods; a gone node runs none. */
export type NodeLoss = "silent" | "gone";

/** What a held owner waits for. */
export interface HeldState {
  /** When its deletion was asked for. */
  readonly since: string;
  /** `namespace/name`, sorted, the first `MAX_HOLDS`. */
  readonly pods: readonly string[];
  /** Sorted, the first `MAX_HOLDS`. */
  readonly nodes: readonly string[];
  /** What it waits for, as the end of a sentence. */
  readonly message: string;
  /** One of the pods should have ended by now. */
  readonly isStuck: boolean;
}

export interface HoldDecision {
  /** What to do with the finalizer. Absent: nothing. */
  readonly finalizer?: "Add" | "Remove";
  /** Why. Absent: there is nothing to say about the owner. */
  readonly reason?: Reason;
  /** To be deleted now, each once. */
  readonly deletes: readonly OwnedObject[];
  /** Absent: the owner does not wait. After a timeout: what it waited for. */
  readonly held?: HeldState;
  readonly recheckAfterMs?: number;
}

/**
 * `deletionTimestamp` of a pod already lies its grace period ahead; the kubelet needs a moment more to tell that it is
 * gone. Later than this the pod counts as stuck, ms.
 */
export const STUCK_AFTER_MS = 30_000;

/** What the garbage collector has in hand, by their finalizers (apimachinery `FinalizerOrphanDependents`, `FinalizerDeleteDependents`). */
const ORPHAN = "orphan";
export const FOREGROUND = "foregroundDeletion";

const nothing: HoldDecision = Object.freeze({ deletes: [] });

/** Pure and total. */
export function decideHold(seen: HoldView): HoldDecision {
  // The pod garbage collector removes the pods of a deleted node only after 40 to 60 s, and nothing runs in them.
  const pods = seen.pods?.filter((pod) => lossOf(seen, pod) !== "gone");
  const view: HoldView = { ...seen, pods };
  const { owner, guard } = view;
  const isGuarded = owner.finalizers.includes(guard.finalizer);
  if (guard.footprints.length === 0)
    return isGuarded ? { finalizer: "Remove", reason: reasons.HoldDropped, deletes: [] } : nothing;
  if (owner.deletionTimestamp !== undefined)
    return isGuarded ? decideDeleted(view, owner.deletionTimestamp) : nothing;
  // Before its pods can be seen no deletion of it could end.
  return isGuarded || !view.arePodsWatched
    ? nothing
    : { finalizer: "Add", reason: reasons.OwnerGuarded, deletes: [] };
}

function decideDeleted(view: HoldView, since: string): HoldDecision {
  const { owned, pods, now } = view;
  const isOver = owned?.length === 0 && pods?.length === 0 && !isOrphaning(view);
  if (isOver) return { finalizer: "Remove", reason: reasons.OwnerReleased, deletes: [] };
  const survey = surveyOf(view);
  const held = stateOf(view, since, survey);
  const timeoutMs = timeoutOf(view.guard);
  const endsAt = timeoutMs === undefined ? undefined : (Date.parse(since) || 0) + timeoutMs;
  if (endsAt !== undefined && endsAt <= now)
    return { finalizer: "Remove", reason: reasons.HoldTimedOut, deletes: [], held };
  const next = Math.min(endsAt ?? Number.POSITIVE_INFINITY, survey.nextStuckAt);
  return {
    reason: reasons.OwnerHeld,
    deletes: deletesOf(view),
    held,
    ...(Number.isFinite(next) && { recheckAfterMs: next - now }),
  };
}

/**
 * The garbage collector deletes nothing of an owner that is still there, so that a finalizer would keep it there for ever:
 * what it owns is deleted here. Not where the collector does so itself, and not what is about to be orphaned; and not before
 * its pods are known, for without what is between they can no longer be followed up to it.
 */
function deletesOf(view: HoldView): readonly OwnedObject[] {
  const { owner, guard, owned = [], pods, asked } = view;
  if (pods === undefined || isOrphaning(view) || owner.finalizers.includes(FOREGROUND)) return [];
  const isOurs = ({ resource }: OwnedObject): boolean =>
    guard.footprints.some(
      ({ hold }) =>
        hold?.onDelete === "DeleteOwned" && hold.ownedResources.some((it) => isSameResource(it, resource)),
    );
  return owned.filter((object) => !object.isDeleting && !asked.has(object.uid) && isOurs(object));
}

/** What owns nothing any more once this is over. */
function isOrphaning({ owner }: HoldView): boolean {
  return owner.finalizers.includes(ORPHAN);
}

/** The longest of them; absent as soon as one holds without end. */
function timeoutOf({ footprints }: Guard): number | undefined {
  const timeouts = footprints.map(({ hold }) => hold?.timeoutMs ?? Number.POSITIVE_INFINITY);
  const longest = Math.max(...timeouts);
  return Number.isFinite(longest) ? longest : undefined;
}

/** An owner can have ten thousands of pods, and is looked at as each of them goes: none is looked at twice, or sorted. */
interface PodSurvey {
  readonly count: number;
  /** In order of their names, `MAX_HOLDS` of them. */
  readonly first: ReadonlyMap<string, Pod>;
  readonly nodes: readonly string[];
  readonly isStuck: boolean;
  /** When the next one should have ended; infinite: none is about to. */
  readonly nextStuckAt: number;
}

function surveyOf(view: HoldView): PodSurvey {
  const { pods = [], now } = view;
  const byName = new Map<string, Pod>();
  const nodes = new Set<string>();
  let isStuck = false;
  let nextStuckAt = Number.POSITIVE_INFINITY;
  for (const pod of pods) {
    byName.set(podName(pod), pod);
    for (const node of nodeOf(pod)) nodes.add(node);
    const at = stuckAt(pod);
    if (at > now) nextStuckAt = Math.min(nextStuckAt, at);
    isStuck ||= at <= now || lossOf(view, pod) !== undefined;
  }
  const first = new Map<string, Pod>();
  for (const name of firstOf(byName.keys(), MAX_HOLDS)) {
    const pod = byName.get(name);
    if (pod !== undefined) first.set(name, pod);
  }
  return { count: pods.length, first, nodes: firstOf(nodes, MAX_HOLDS), isStuck, nextStuckAt };
}

function stateOf(view: HoldView, since: string, survey: PodSurvey): HeldState {
  const { first, nodes, isStuck } = survey;
  return { since, pods: [...first.keys()], nodes, message: messageOf(view, survey), isStuck };
}

function messageOf(view: HoldView, { count, first: pods }: PodSurvey): string {
  const { owned, now } = view;
  if (count > 0) {
    const named = [...pods].map(([name, pod]) => {
      const [node] = nodeOf(pod);
      const where = node === undefined ? "" : ` on ${node}`;
      const lost = lossOf(view, pod) === undefined ? "" : ", whose node is silent";
      return `${name}${where}${lost || (stuckAt(pod) <= now ? ", past its grace period" : "")}`;
    });
    const more = count > named.length ? `; and ${count - named.length} more` : "";
    return `${count === 1 ? "a pod" : `${count} pods`}: ${named.join("; ")}${more}`;
  }
  const [first, ...others] = owned ?? [];
  if (isOrphaning(view)) return "the garbage collector to orphan what it owns";
  if (first === undefined || view.pods === undefined) return "what it owns to be looked up";
  const more = others.length > 0 ? ` and ${others.length} more` : "";
  return `what it owns: ${first.resource.resource} ${first.namespace}/${first.name}${more}`;
}

/** Infinite for one that has not been told to end. */
function stuckAt({ metadata }: Pod): number {
  const endsAt = Date.parse(metadata?.deletionTimestamp ?? "");
  return Number.isNaN(endsAt) ? Number.POSITIVE_INFINITY : endsAt + STUCK_AFTER_MS;
}

/** Of a pod that was told to end. */
function lossOf(view: HoldView, pod: Pod): NodeLoss | undefined {
  if (pod.metadata?.deletionTimestamp === undefined) return undefined;
  const [node] = nodeOf(pod);
  return node === undefined ? undefined : view.lossOf?.(node);
}

function podName({ metadata }: Pod): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
