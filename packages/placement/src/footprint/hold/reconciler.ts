/** Carries out the decisions about owners under a hold: deletes what they own, and patches their finalizers. */
import { CarryOut, type Intent, REST_MS } from "@berth/host";
import { isApiError, type KubeClient, type KubeObject } from "@berth/kube";
import { type Clock, earliest, type Reconcile } from "@berth/runtime";
import { reasons } from "../../api/reasons.ts";
import type { EventSink } from "../../node/report.ts";
import type { HeldOwner } from "../footprint-observations.ts";
import { decideHold, FOREGROUND, type Guard, type HoldDecision, type NodeLoss, ORPHAN } from "./decide.ts";
import type { HeldOwners } from "./held-owners.ts";
import { type HeldPods, type HeldPodsObservations, podsOfOwner } from "./held-pods.ts";
import { heldName, resourceOf } from "./held-resource.ts";
import { type HoldWatches, type OwnerKey, toOwnerText } from "./watches.ts";

export interface HoldReconcilerOptions {
  readonly client: Pick<KubeClient, "get" | "create" | "patch" | "apply" | "delete">;
  readonly watches: Pick<HoldWatches, "guards" | "owner" | "owned" | "refsOf" | "looked" | "missing">;
  readonly observations: HeldPodsObservations;
  readonly held: HeldOwners;
  /** Is the node silent, or gone? Default no node is. */
  readonly lossOf?: (node: string) => NodeLoss | undefined;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/** What Berth remembers of one owner while it is being deleted. */
interface OwnerMemory {
  readonly uid: string;
  /** Uids of its pods. */
  readonly known: Set<string>;
  isOrphaned: boolean;
  isStuckTold: boolean;
}

/**
 * Level-based: acts on the current state of an owner. Berth adds the finalizer of a hold while the owner lives, and
 * removes it when nothing of the owner is left. It never changes or moves other finalizers. A restart loses no state
 * that matters. The message of a held owner reports a missing permission; Berth uses it within 30 s of its return.
 */
export function createHoldReconciler(options: HoldReconcilerOptions): Reconcile<OwnerKey> {
  const { watches, held, client, clock } = options;
  // Berth learns the kind of an owner only from a read object: `record` sends the Event.
  const carryOut = new CarryOut({
    client,
    clock,
    action: ACTION,
    done({ metadata }, { reason, message }, stored) {
      if (reason === reasons.HoldTimedOut) record(options, metadata?.uid, stored, { reason, note: message });
    },
  });
  // One entry for each owner that is being deleted. When the owner is gone, its last reconcile removes the entry.
  const memories = new Map<string, OwnerMemory>();
  return async (key, context) => {
    const id = toOwnerText(key);
    const owner = watches.owner(key);
    if (owner?.deletionTimestamp === undefined) memories.delete(id);
    const guards = owner === undefined ? [] : watches.guards(key.resource);
    held.clear(
      id,
      owner?.deletionTimestamp === undefined ? [] : guards.flatMap(({ footprint }) => footprint?.rule ?? []),
    );
    if (owner === undefined) {
      carryOut.forget(id);
      return undefined;
    }
    const memory = owner.deletionTimestamp === undefined ? undefined : recall(memories, id, owner);
    let recheckAfterMs: number | undefined;
    for (const guard of guards) {
      const visit: Visit = { key, owner, guard, memory };
      const decision = look(options, visit);
      report(options, visit, decision);
      await tellStuck(options, visit, decision, context.signal);
      const { problem, ...sent } = await carryOut
        .send(id, subjectOf(owner), intentsOf(options, visit, decision), context)
        .catch((error: unknown) => {
          if (!isApiError(error, "forbidden")) throw error;
          return { problem: error.message, recheckAfterMs: error.retryAfterMs ?? REST_MS };
        });
      if (problem !== undefined) report(options, visit, decision, problem);
      recheckAfterMs = earliest(recheckAfterMs, sent.recheckAfterMs, decision.recheckAfterMs);
    }
    return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
  };
}

const ACTION = "HoldOwner";

interface Visit {
  readonly key: OwnerKey;
  readonly owner: HeldOwner;
  readonly guard: Guard;
  /** Only for an owner that is being deleted. */
  readonly memory: OwnerMemory | undefined;
}

function recall(memories: Map<string, OwnerMemory>, id: string, { uid, finalizers }: HeldOwner): OwnerMemory {
  let memory = memories.get(id);
  if (memory?.uid !== uid) {
    memory = { uid, known: new Set(), isOrphaned: false, isStuckTold: false };
    memories.set(id, memory);
  }
  memory.isOrphaned ||= finalizers.includes(ORPHAN);
  return memory;
}

function look(options: HoldReconcilerOptions, visit: Visit): HoldDecision {
  const { watches, observations, lossOf, clock } = options;
  const { key, owner, guard, memory } = visit;
  const isHeld = memory !== undefined && owner.finalizers.includes(guard.finalizer);
  const found = isHeld ? podsOf(options, visit, memory) : undefined;
  // Call it at once: a later change is not part of this check.
  if (found !== undefined && memory !== undefined)
    watches.looked(key, { isUnread: found.isUnread, known: memory.known });
  return decideHold({
    owner,
    guard,
    owned: isHeld ? watches.owned(guard, owner) : undefined,
    pods: found?.pods,
    // No pod has an empty namespace: this call collects nothing, and only shows whether Berth watches the pods.
    arePodsWatched:
      guard.footprint !== undefined && observations.podsOf(guard.footprint, { namespace: "" }) !== undefined,
    lossOf,
    now: clock.now(),
  });
}

function podsOf(
  { watches, observations }: HoldReconcilerOptions,
  { owner: { namespace, uid, finalizers }, guard }: Visit,
  { known, isOrphaned }: OwnerMemory,
): HeldPods | undefined {
  const refsOf = (of: string): readonly string[] | undefined => watches.refsOf(guard, namespace, of);
  const isForeground = finalizers.includes(FOREGROUND);
  return (
    guard.footprint &&
    podsOfOwner(guard.footprint, { namespace, uid, refsOf, known, isOrphaned, isForeground }, observations)
  );
}

/** @param refusal the message with which the API server refused the write. */
function report(
  { held }: HoldReconcilerOptions,
  { key, owner, guard }: Visit,
  decision: HoldDecision,
  refusal?: string,
): void {
  if (guard.footprint === undefined) return;
  const waits = decision.finalizer === undefined ? decision.held : undefined;
  const entry = waits && {
    ...waits,
    name: heldName(owner),
    uid: owner.uid,
    message: refusal === undefined ? waits.message : `${waits.message}; ${refusal}`,
  };
  held.put(guard.footprint.rule, toOwnerText(key), entry);
}

function subjectOf({ resource, ...owner }: HeldOwner): Parameters<CarryOut["send"]>[1] {
  return { resource: resourceOf(resource, owner.namespace !== ""), object: { metadata: owner } };
}

/** Deletes only the version that Berth saw as owned: an object that was orphaned meanwhile has a newer version. */
function intentsOf(
  { watches }: HoldReconcilerOptions,
  { owner, guard }: Visit,
  { deletes, finalizer, reason = reasons.OwnerHeld, held }: HoldDecision,
): readonly Intent[] {
  const intents = deletes.map(({ resource, namespace, name, uid, resourceVersion }): Intent => {
    const seen = { metadata: { namespace, name, uid, resourceVersion } };
    const on = { resource: resourceOf(resource, namespace !== ""), seen };
    const what = `${resource.resource} ${heldName({ namespace, name })}`;
    const message = `${heldName(owner)}, which owns it, is deleted`;
    return { do: "delete", propagation: "Background", on, reason, message, what };
  });
  if (finalizer === undefined) return intents;
  const about = { finalizer: guard.finalizer, reason, what: "its finalizer" };
  const seconds = (guard.footprint?.hold?.timeoutMs ?? 0) / 1000;
  if (finalizer === "Remove") {
    const waited = `released after ${seconds}s; it still waited for ${held?.message ?? "what it owns"}`;
    const message = reason === reasons.HoldTimedOut ? waited : "nothing of it is left to wait for";
    return [...intents, { ...about, do: "removeFinalizer", message }];
  }
  const unless = async (signal: AbortSignal): Promise<string | undefined> => {
    const missing = await watches.missing(guard, owner.namespace, signal);
    return missing && `Berth adds no finalizer that it could not remove: ${missing}`;
  };
  return [...intents, { ...about, do: "addFinalizer", message: "its deletion is to wait", unless }];
}

/** Sends at most one Event for each deletion. */
async function tellStuck(
  options: HoldReconcilerOptions,
  { owner, memory }: Visit,
  { held, finalizer }: HoldDecision,
  signal: AbortSignal,
): Promise<void> {
  if (memory === undefined || memory.isStuckTold || held?.isStuck !== true || finalizer !== undefined) return;
  memory.isStuckTold = true;
  if (options.events === undefined) return;
  const { resource, namespace, name } = owner;
  const of = resourceOf(resource, namespace !== "");
  const read = await options.client.get(of, { namespace, name }, { signal }).catch((error: unknown) => {
    if (!isApiError(error, "notFound", "forbidden")) throw error;
    return undefined;
  });
  const note = `its deletion waits for ${held.message}`;
  record(options, owner.uid, read, { reason: reasons.OwnerHeld, note });
}

/** @param read the object as the API server returned it, with its kind. */
function record(
  { events }: HoldReconcilerOptions,
  owner: string | undefined,
  read: KubeObject | undefined,
  what: { readonly reason: string; readonly note: string },
): void {
  const { apiVersion = "", kind = "", metadata: { namespace = "", name = "", uid = "" } = {} } = read ?? {};
  if (uid !== owner) return;
  const regarding = { apiVersion, kind, name, uid, ...(namespace && { namespace }) };
  events?.record({ regarding, ...what, type: "Warning", action: ACTION });
}
