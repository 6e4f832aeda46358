/** Decides what to do with an owner under a hold, as plain data. The README has the table. */
import { type Pod, pathOf } from "@berth/kube";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { Instant } from "../../node/capability.ts";
import { firstOf } from "../../node/first-names.ts";
import { nodeOf } from "../../node/pod-nodes.ts";
import type { Footprint, GroupVersionResource } from "../footprint.ts";
import type { HeldOwner } from "../footprint-observations.ts";
import { MAX_HOLDS } from "../resource.ts";

/** A hold on the owners of one resource, by one finalizer. */
export interface Guard {
  readonly resource: GroupVersionResource;
  readonly finalizer: string;
  /** The first in force if several hold it. `undefined`: none does any more, so Berth removes the finalizer. */
  readonly footprint: Footprint | undefined;
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
  /** `undefined` while not known. Berth reads them only when the owner is being deleted. */
  readonly owned: readonly OwnedObject[] | undefined;
  /** Pods of the owner that the hold waits for. `undefined` while they are not known. */
  readonly pods: readonly Pod[] | undefined;
  readonly arePodsWatched: boolean;
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
  /** `namespace/name`. Pods and nodes are sorted, the first `MAX_HOLDS`. */
  readonly pods: readonly string[];
  readonly nodes: readonly string[];
  /** What it waits for, as the end of a sentence. */
  readonly message: string;
  /** One of the pods should have ended by now. */
  readonly isStuck: boolean;
}

export interface HoldDecision {
  readonly finalizer?: "Add" | "Remove";
  readonly reason?: Reason;
  /** To be deleted now. */
  readonly deletes: readonly OwnedObject[];
  /** Absent: the owner does not wait. After a timeout: what it waited for. */
  readonly held?: HeldState;
  readonly recheckAfterMs?: number;
}

/**
 * A pod counts as stuck this long after its `deletionTimestamp`, ms. That timestamp already includes the grace period,
 * and the kubelet needs a moment more to remove the pod.
 */
export const STUCK_AFTER_MS = 30_000;
/** How often Berth checks a waiting owner without any event, ms. The check reads only memory. */
export const LOOK_MS = 10_000;

/** Finalizers of the garbage collector (apimachinery `FinalizerOrphanDependents`, `FinalizerDeleteDependents`). */
export const ORPHAN = "orphan";
export const FOREGROUND = "foregroundDeletion";

const nothing: HoldDecision = Object.freeze({ deletes: [] });

/** Pure and total. */
export function decideHold(seen: HoldView): HoldDecision {
  // The pod garbage collector removes the pods of a deleted node only after 40 to 60 s, and nothing runs in them.
  const view: HoldView = { ...seen, pods: seen.pods?.filter((pod) => lossOf(seen, pod) !== "gone") };
  const { owner, guard } = view;
  if (owner.finalizers.includes(guard.finalizer)) {
    if (guard.footprint === undefined)
      return { finalizer: "Remove", reason: reasons.HoldDropped, deletes: [] };
    return owner.deletionTimestamp === undefined ? nothing : decideDeleted(view, owner.deletionTimestamp);
  }
  // Without a watch on the pods, Berth could never end the deletion of the owner.
  if (guard.footprint === undefined || owner.deletionTimestamp !== undefined || !view.arePodsWatched)
    return nothing;
  return { finalizer: "Add", reason: reasons.OwnerGuarded, deletes: [] };
}

function decideDeleted(view: HoldView, since: string): HoldDecision {
  const { owned, pods, now, guard } = view;
  const isOver = owned?.length === 0 && pods?.length === 0 && !isOrphaning(view);
  if (isOver) return { finalizer: "Remove", reason: reasons.OwnerReleased, deletes: [] };
  const held = stateOf(view, since);
  const leftMs = (Date.parse(since) || 0) + (guard.footprint?.hold?.timeoutMs ?? Infinity) - now;
  if (leftMs <= 0) return { finalizer: "Remove", reason: reasons.HoldTimedOut, deletes: [], held };
  return {
    reason: reasons.OwnerHeld,
    deletes: deletesOf(view),
    held,
    recheckAfterMs: Math.min(leftMs, LOOK_MS),
  };
}

/**
 * The garbage collector deletes no objects while their owner exists, and the finalizer keeps the owner. So Berth
 * deletes them, unless the garbage collector does it (foreground) or is about to orphan them. Berth also waits until
 * the pods are known: without the objects in between, it cannot follow pods up to the owner.
 */
function deletesOf(view: HoldView): readonly OwnedObject[] {
  const { owner, guard, owned = [], pods } = view;
  if (pods === undefined || isOrphaning(view) || owner.finalizers.includes(FOREGROUND)) return [];
  if (guard.footprint?.hold?.onDelete !== "DeleteOwned") return [];
  return owned.filter(({ isDeleting }) => !isDeleting);
}

/** Is the garbage collector about to orphan the objects? Afterwards the owner owns nothing. */
function isOrphaning({ owner }: HoldView): boolean {
  return owner.finalizers.includes(ORPHAN);
}

/** An owner can have tens of thousands of pods, so the state names only the first ones. */
function stateOf(view: HoldView, since: string): HeldState {
  const { pods = [] } = view;
  const byName = new Map(pods.map((pod) => [pathOf(pod.metadata), pod]));
  const names = firstOf(byName.keys(), MAX_HOLDS);
  const first = names.flatMap((name) => byName.get(name) ?? []);
  return {
    since,
    pods: names,
    nodes: firstOf(new Set(pods.flatMap(nodeOf)), MAX_HOLDS),
    message: messageOf(view, first),
    isStuck: pods.some((pod) => whyStuck(view, pod) !== undefined),
  };
}

function messageOf(view: HoldView, first: readonly Pod[]): string {
  const { owned, pods = [] } = view;
  if (pods.length > 0) {
    const named = first.map((pod) => {
      const [node] = nodeOf(pod);
      return `${pathOf(pod.metadata)}${node === undefined ? "" : ` on ${node}`}${whyStuck(view, pod) ?? ""}`;
    });
    const more = pods.length > named.length ? `; and ${pods.length - named.length} more` : "";
    return `${pods.length === 1 ? "a pod" : `${pods.length} pods`}: ${named.join("; ")}${more}`;
  }
  const [object, ...others] = owned ?? [];
  if (isOrphaning(view)) return "the garbage collector to orphan what it owns";
  if (object === undefined || view.pods === undefined) return "what it owns to be looked up";
  const more = others.length > 0 ? ` and ${others.length} more` : "";
  return `what it owns: ${object.resource.resource} ${object.namespace}/${object.name}${more}`;
}

/** `undefined`: the pod is not being deleted, or still has time to end. */
function whyStuck(view: HoldView, pod: Pod): string | undefined {
  if (lossOf(view, pod) !== undefined) return ", whose node is silent";
  const endsAt = Date.parse(pod.metadata?.deletionTimestamp ?? "");
  return endsAt + STUCK_AFTER_MS <= view.now ? ", past its grace period" : undefined;
}

/** Only for a pod that is being deleted. */
function lossOf(view: HoldView, pod: Pod): NodeLoss | undefined {
  if (pod.metadata?.deletionTimestamp === undefined) return undefined;
  const [node] = nodeOf(pod);
  return node === undefined ? undefined : view.lossOf?.(node);
}
