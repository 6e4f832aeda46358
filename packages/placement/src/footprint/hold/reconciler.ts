/** Carries out what is decided about owners with a hold: deletions of what they own, and one patch of finalizers. */
import { type ApiError, isApiError, type KubeClient, type KubeObject } from "@berth/kube";
import { addFinalizer, type Clock, type Reconcile, removeFinalizer } from "@berth/runtime";
import { reasons } from "../../api/reasons.ts";
import type { EventSink } from "../../node/report.ts";
import type { HeldOwner } from "../footprint-sight.ts";
import { decideHold, FOREGROUND, type Guard, type HoldDecision, type NodeLoss, ORPHAN } from "./decide.ts";
import type { HeldOwners } from "./held-owners.ts";
import { type HeldPods, type HeldPodsSight, podsOfOwner } from "./held-pods.ts";
import { heldName, resourceOf } from "./held-resource.ts";
import { type HoldWatches, type OwnerKey, toOwnerText } from "./watches.ts";

export interface HoldReconcilerOptions {
  readonly client: Pick<KubeClient, "get" | "patch" | "delete">;
  readonly watches: Pick<HoldWatches, "guards" | "owner" | "owned" | "refsOf" | "looked" | "missing">;
  readonly sight: HeldPodsSight;
  readonly held: HeldOwners;
  /** Is the node silent, or gone? Default no node is. */
  readonly lossOf?: (node: string) => NodeLoss | undefined;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/** What is remembered of one owner with a finalizer of ours on it while it is being deleted. */
interface OwnerMemory {
  readonly uid: string;
  /** Uids of its pods. */
  readonly known: Set<string>;
  /** Uids of owned objects whose deletion was asked for. */
  readonly asked: Set<string>;
  isOrphaned: boolean;
  isStuckTold: boolean;
}

/** How soon is tried again what the server refuses, ms, unless the client knows. */
const REFUSED_MS = 30_000;

type Context = Parameters<Reconcile<OwnerKey>>[1];

/**
 * Level-based: what an owner lacks now. The finalizer of a hold is put on while the owner lives and taken off when nothing
 * of it is left; finalizers of others are neither touched nor moved. Nothing is remembered that a restart could not do
 * without. A permission that is missing is told of by what is held; it is used within 30 s of its return.
 */
export function createHoldReconciler(options: HoldReconcilerOptions): Reconcile<OwnerKey> {
  const { watches, held } = options;
  // As many entries as there are owners whose deletion waits: each is told of when it is gone.
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
    if (owner === undefined) return undefined;
    const memory = owner.deletionTimestamp === undefined ? undefined : recall(memories, id, owner);
    let recheckAfterMs = Number.POSITIVE_INFINITY;
    for (const guard of guards) {
      const visit: Visit = { key, owner, guard, memory, context };
      const decision = look(options, visit);
      report(options, visit, decision);
      const refusal = await carryOut(options, visit, decision);
      // The next finalizer is decided upon the version that the patch has made.
      if (refusal === undefined && decision.finalizer !== undefined) return undefined;
      if (refusal !== undefined) {
        report(options, visit, decision, refusal.why);
        recheckAfterMs = Math.min(recheckAfterMs, refusal.afterMs ?? REFUSED_MS);
      }
      recheckAfterMs = Math.min(recheckAfterMs, decision.recheckAfterMs ?? recheckAfterMs);
    }
    return Number.isFinite(recheckAfterMs) ? { recheckAfterMs } : undefined;
  };
}

interface Visit {
  readonly key: OwnerKey;
  readonly owner: HeldOwner;
  readonly guard: Guard;
  /** Of one that is being deleted. */
  readonly memory: OwnerMemory | undefined;
  readonly context: Context;
}

function recall(memories: Map<string, OwnerMemory>, id: string, { uid, finalizers }: HeldOwner): OwnerMemory {
  let memory = memories.get(id);
  if (memory?.uid !== uid) {
    memory = { uid, known: new Set(), asked: new Set(), isOrphaned: false, isStuckTold: false };
    memories.set(id, memory);
  }
  memory.isOrphaned ||= finalizers.includes(ORPHAN);
  return memory;
}

function look(options: HoldReconcilerOptions, visit: Visit): HoldDecision {
  const { watches, sight, lossOf, clock } = options;
  const { key, owner, guard, memory } = visit;
  const isHeld = memory !== undefined && owner.finalizers.includes(guard.finalizer);
  const found = isHeld ? podsOf(options, visit, memory) : undefined;
  // At once: what is told from here on is not seen yet.
  if (found !== undefined && memory !== undefined)
    watches.looked(key, { isUnread: found.isUnread, known: memory.known });
  return decideHold({
    owner,
    guard,
    owned: isHeld ? watches.owned(guard, owner) : undefined,
    pods: found?.pods,
    // There is none in no namespace: nothing is gathered to know whether they are watched.
    arePodsWatched:
      guard.footprint !== undefined && sight.podsOf(guard.footprint, { namespace: "" }) !== undefined,
    asked: memory?.asked ?? new Set(),
    lossOf,
    now: clock.now(),
  });
}

function podsOf(
  { watches, sight }: HoldReconcilerOptions,
  { owner: { namespace, uid, finalizers }, guard }: Visit,
  { known, isOrphaned }: OwnerMemory,
): HeldPods | undefined {
  const refsOf = (of: string): readonly string[] | undefined => watches.refsOf(guard, namespace, of);
  const isForeground = finalizers.includes(FOREGROUND);
  return (
    guard.footprint &&
    podsOfOwner(guard.footprint, { namespace, uid, refsOf, known, isOrphaned, isForeground }, sight)
  );
}

/** @param refusal what the server said to what was to be done. */
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

/** Answers what may not be done; `undefined`: all that was decided is done. */
async function carryOut(
  options: HoldReconcilerOptions,
  visit: Visit,
  decision: HoldDecision,
): Promise<{ readonly why: string; readonly afterMs?: number | undefined } | undefined> {
  const { owner, guard, memory, context } = visit;
  const { held, finalizer } = decision;
  try {
    if (memory !== undefined && held?.isStuck === true && !memory.isStuckTold && finalizer === undefined) {
      memory.isStuckTold = true;
      await tell(options, visit, {
        reason: reasons.OwnerHeld,
        note: `its deletion waits for ${held.message}`,
      });
    }
    await deleteOwned(options, visit, decision);
    if (finalizer === "Add") {
      const missing = await options.watches.missing(guard, owner.namespace, context.signal);
      if (missing !== undefined)
        return { why: `no finalizer is put on that could not be taken off: ${missing}` };
    }
    if (finalizer !== undefined) await patch(options, visit, decision);
    return undefined;
  } catch (error) {
    if (isApiError(error, "forbidden")) return { why: error.message, afterMs: error.retryAfterMs };
    throw error;
  }
}

/**
 * Of the version that was seen to be owned: what has been orphaned meanwhile is another one. A refusal stops no other
 * deletion: a policy may protect some objects and not the rest. What a missing permission would refuse is not even sent
 * (`GuardedClient`).
 *
 * @throws ApiError of kind forbidden, the first, once all others have been asked for.
 */
async function deleteOwned(
  { client }: HoldReconcilerOptions,
  { owner, memory, context }: Visit,
  { deletes }: HoldDecision,
): Promise<void> {
  let refusal: ApiError | undefined;
  for (const { resource, namespace, name, uid, resourceVersion } of deletes) {
    const about = resourceOf(resource, namespace !== "");
    const preconditions = { uid, resourceVersion };
    const options = { propagationPolicy: "Background", preconditions, signal: context.signal } as const;
    try {
      await client.delete(about, { namespace, name }, options);
    } catch (error) {
      if (!isApiError(error, "forbidden", "notFound", "conflict", "uidMismatch")) throw error;
      if (isApiError(error, "forbidden")) refusal ??= error;
      // A newer version is on its way, and its event brings the owner back.
      continue;
    }
    memory?.asked.add(uid);
    const log = { owner: heldName(owner), name, resource: about.plural };
    context.log.info("deleted what the owner owned", log);
  }
  if (refusal !== undefined) throw refusal;
}

/** @throws ApiError of kind conflict, on which the runtime looks again. */
async function patch(
  options: HoldReconcilerOptions,
  visit: Visit,
  { finalizer, reason, held }: HoldDecision,
): Promise<void> {
  const { owner, guard, context } = visit;
  const { uid, resourceVersion, finalizers } = owner;
  const seen: KubeObject = { metadata: { uid, resourceVersion, finalizers } };
  const body = (finalizer === "Add" ? addFinalizer : removeFinalizer)(seen, guard.finalizer);
  if (body === undefined) return;
  const written = options.client.patch(...nameOf(owner), body, { signal: context.signal });
  const after = await orGone(written, "notFound", "uidMismatch");
  if (after === undefined) return;
  context.log.info("finalizer of an owner changed", { owner: heldName(owner), finalizer, reason });
  if (reason !== reasons.HoldTimedOut) return;
  const seconds = (guard.footprint?.hold?.timeoutMs ?? 0) / 1000;
  const note = `let go after ${seconds}s; it still waited for ${held?.message ?? "what it owns"}`;
  await tell(options, visit, { reason, note }, after);
}

/** The kind of the owner is not known before it is read. @param read as the server has answered with it. */
async function tell(
  { client, events }: HoldReconcilerOptions,
  { owner, context: { signal } }: Visit,
  { reason, note }: { readonly reason: string; readonly note: string },
  read?: KubeObject,
): Promise<void> {
  if (events === undefined) return;
  const object = read ?? (await orGone(client.get(...nameOf(owner), { signal }), "notFound", "forbidden"));
  const { apiVersion = "", kind = "", metadata: { namespace = "", name = "", uid = "" } = {} } = object ?? {};
  if (uid !== owner.uid) return;
  const regarding = { apiVersion, kind, name, uid, ...(namespace && { namespace }) };
  events.record({ regarding, reason, note, type: "Warning", action: "HoldOwner" });
}

/** `undefined` where it fails as one of these kinds. */
async function orGone<T>(
  request: Promise<T>,
  ...kinds: readonly ("notFound" | "uidMismatch" | "forbidden")[]
): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isApiError(error, ...kinds)) return undefined;
    throw error;
  }
}

function nameOf({
  resource,
  namespace,
  name,
}: HeldOwner): [ReturnType<typeof resourceOf>, { readonly namespace: string; readonly name: string }] {
  return [resourceOf(resource, namespace !== ""), { namespace, name }];
}
