/** Carries out what is decided about owners with a hold: deletions of what they own, and one patch of finalizers. */
import { isApiError, type KubeClient, type KubeObject, type Pod } from "@berth/kube";
import {
  addFinalizer,
  type Clock,
  type Reconcile,
  type ReconcileResult,
  removeFinalizer,
} from "@berth/runtime";
import { reasons } from "../../api/reasons.ts";
import type { EventSink } from "../../node/report.ts";
import type { HeldOwner } from "../footprint-sight.ts";
import { decideHold, FOREGROUND, type Guard, type HoldDecision, type NodeLoss } from "./decide.ts";
import { type DeletionMemory, deleteOwned } from "./delete-owned.ts";
import { HeldOwners } from "./held-owners.ts";
import { type HeldPodsSight, podsOfOwner } from "./held-pods.ts";
import { guardName, heldName, resourceOf } from "./held-resource.ts";
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
interface OwnerMemory extends DeletionMemory {
  readonly uid: string;
  /** Uids of its pods. */
  readonly known: Set<string>;
  isOrphaned: boolean;
  isStuckTold: boolean;
  /** It had many pods when last looked at. */
  crowd?: { readonly resourceVersion: string; readonly at: number };
}

/** An owner with as many pods is looked at once in `CROWD_MS` at most, unless it changes itself: a look reads them all. */
const CROWD = 1_000;
/** ms. */
const CROWD_MS = 1_000;
/** How soon is tried again what the server refuses, ms, unless the client knows. */
const REFUSED_MS = 30_000;
/** Holds and namespaces of which it is remembered that a refusal was told. Beyond it all are told of anew. */
const MAX_REFUSED = 10_000;

type Context = Parameters<Reconcile<OwnerKey>>[1];

/**
 * Level-based: what an owner lacks now. The finalizer of a hold is put on while the owner lives and taken off when nothing
 * of it is left; finalizers of others are neither touched nor moved. Nothing is remembered that a restart could not do
 * without. A permission that is missing is told of by an Event on the first owner of a namespace that meets it, and by
 * what is held; it is used within 30 s of its return.
 */
export function createHoldReconciler(options: HoldReconcilerOptions): Reconcile<OwnerKey> {
  // As many entries as there are owners whose deletion waits: each is told of when it is gone.
  const memories = new Map<string, OwnerMemory>();
  // Holds of which a refusal has been told since it began, each in a namespace: the rights of another differ.
  const refused = new Set<string>();
  return async (key, context) => {
    const id = toOwnerText(key);
    const owner = options.watches.owner(key);
    const guards = options.watches.guards(key.resource);
    const isDeleted = owner?.deletionTimestamp !== undefined;
    if (owner === undefined || !isDeleted) {
      memories.delete(id);
      options.held.clear(id);
    }
    if (owner === undefined) return undefined;
    const memory = isDeleted ? recall(memories, id, owner) : undefined;
    const restMs = restOf(memory, owner, options.clock.monotonic());
    if (restMs > 0) return { recheckAfterMs: restMs };
    const rules = guards.flatMap(({ footprints }) => footprints.map(({ rule }) => rule));
    options.held.clear(id, rules);
    try {
      return await keep(options, { key, owner, guards, memory, refused, context });
    } catch (error) {
      // It is tried again when the runtime says, later each time: a rest would count as success.
      delete memory?.crowd;
      throw error;
    }
  };
}

interface Visit extends Pick<Look, "owner" | "memory"> {
  readonly key: OwnerKey;
  readonly guards: readonly Guard[];
  /** Added to and taken from. */
  readonly refused: Set<string>;
  readonly context: Context;
}

/** All holds of one owner, in turn. */
async function keep(
  options: HoldReconcilerOptions,
  { key, owner, guards, memory, refused, context }: Visit,
): Promise<ReconcileResult | undefined> {
  const id = toOwnerText(key);
  let recheckAfterMs: number | undefined;
  const unread: Pod[] = [];
  for (const guard of guards) {
    const decision = look(options, { owner, guard, memory, unread });
    // At once: what is told from here on is not seen yet.
    if (memory !== undefined) options.watches.looked(key, { unread, known: memory.known });
    const found = { owner, guard, decision };
    report(options, id, found);
    const refusal = await carryOut(options, { ...found, memory, context });
    const place = `${guardName(guard)} ${owner.namespace}`;
    // The next finalizer is decided upon the version that the patch has made.
    if (refusal === undefined && decision.finalizer !== undefined) {
      refused.delete(place);
      return undefined;
    }
    if (refusal !== undefined) {
      report(options, id, found, refusal.why);
      if (!refused.has(place)) {
        await tellRefused(options, owner, { refusal: refusal.why, context });
        if (refused.size >= MAX_REFUSED) refused.clear();
        refused.add(place);
      }
      recheckAfterMs = earliest(recheckAfterMs, refusal.afterMs ?? REFUSED_MS);
    }
    recheckAfterMs = earliest(recheckAfterMs, decision.recheckAfterMs);
  }
  return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
}

/** Answers what may not be done; `undefined`: all that was decided is done. */
async function carryOut(
  options: HoldReconcilerOptions,
  { memory, context, ...found }: Found & Pick<Look, "memory"> & { readonly context: Context },
): Promise<{ readonly why: string; readonly afterMs?: number | undefined } | undefined> {
  const { owner, guard, decision } = found;
  try {
    if (memory !== undefined) await tellStuck(options, { ...found, memory, context });
    if (memory !== undefined)
      await deleteOwned(options.client, { owner, deletes: decision.deletes, memory, context });
    if (decision.finalizer === "Add") {
      const missing = await options.watches.missing(guard, owner.namespace, context.signal);
      if (missing !== undefined)
        return { why: `no finalizer is put on that could not be taken off: ${missing}` };
    }
    if (decision.finalizer !== undefined) await patch(options, { ...found, context });
    return undefined;
  } catch (error) {
    if (isApiError(error, "forbidden")) return { why: error.message, afterMs: error.retryAfterMs };
    throw error;
  }
}

interface Look {
  readonly owner: HeldOwner;
  readonly guard: Guard;
  readonly memory: OwnerMemory | undefined;
  /** Pods whose owners are not known are added. */
  readonly unread: Pod[];
}

function recall(memories: Map<string, OwnerMemory>, id: string, owner: HeldOwner): OwnerMemory {
  let memory = memories.get(id);
  if (memory?.uid !== owner.uid) {
    memory = {
      uid: owner.uid,
      asked: new Set(),
      known: new Set(),
      isOrphaned: false,
      isStuckTold: false,
    };
    memories.set(id, memory);
  }
  if (owner.finalizers.includes("orphan")) memory.isOrphaned = true;
  return memory;
}

/** How long until an owner is looked at again, ms; 0: now. */
function restOf(memory: OwnerMemory | undefined, { resourceVersion }: HeldOwner, now: number): number {
  const crowd = memory?.crowd;
  return crowd?.resourceVersion === resourceVersion ? Math.max(0, crowd.at + CROWD_MS - now) : 0;
}

function look(options: HoldReconcilerOptions, { owner, guard, memory, unread }: Look): HoldDecision {
  const { watches, sight, lossOf, clock } = options;
  const isHeld = memory !== undefined && owner.finalizers.includes(guard.finalizer);
  return decideHold({
    owner,
    guard,
    owned: isHeld ? watches.owned(guard, owner) : undefined,
    pods: isHeld ? podsOf(options, { owner, guard, memory, unread }) : undefined,
    // There is none in no namespace: nothing is gathered to know whether they are watched.
    arePodsWatched: guard.footprints.every((it) => sight.podsOf(it, { namespace: "" }) !== undefined),
    asked: memory?.asked ?? new Set(),
    lossOf,
    now: clock.now(),
  });
}

function podsOf(
  { watches, sight, clock }: HoldReconcilerOptions,
  { owner, guard, memory, unread }: Look & { readonly memory: OwnerMemory },
): readonly Pod[] | undefined {
  const all = new Map<string, Pod>();
  let isKnown = true;
  for (const footprint of guard.footprints) {
    const found = podsOfOwner(
      footprint,
      {
        namespace: owner.namespace,
        uid: owner.uid,
        refsOf: (uid) => watches.refsOf(guard, owner.namespace, uid),
        known: memory.known,
        isOrphaned: memory.isOrphaned,
        isForeground: owner.finalizers.includes(FOREGROUND),
      },
      sight,
    );
    unread.push(...found.unread);
    if (found.pods === undefined) isKnown = false;
    for (const pod of found.pods ?? []) all.set(pod.metadata?.uid ?? "", pod);
  }
  const { resourceVersion } = owner;
  if (isKnown && all.size >= CROWD) memory.crowd = { resourceVersion, at: clock.monotonic() };
  return isKnown ? [...all.values()] : undefined;
}

interface Found {
  readonly owner: HeldOwner;
  readonly guard: Guard;
  readonly decision: HoldDecision;
}

/** @param refusal what the server said to what was to be done. */
function report(
  { held }: HoldReconcilerOptions,
  id: string,
  { owner, guard, decision }: Found,
  refusal?: string,
): void {
  const waits = decision.finalizer === undefined ? decision.held : undefined;
  const entry = waits && {
    ...waits,
    name: heldName(owner),
    uid: owner.uid,
    message: refusal === undefined ? waits.message : `${waits.message}; ${refusal}`,
  };
  for (const { rule } of guard.footprints) held.put(rule, id, entry);
}

/** The kind of the owner is not known before it is read. */
async function tellRefused(
  { client, events }: HoldReconcilerOptions,
  owner: HeldOwner,
  { refusal, context }: { readonly refusal: string; readonly context: Context },
): Promise<void> {
  context.log.warn("a hold lacks a right", { owner: heldName(owner), error: refusal });
  if (events === undefined) return;
  const object = await orGone(
    client.get(resourceFor(owner), ownerName(owner), { signal: context.signal }),
    "notFound",
    "forbidden",
  );
  if (object !== undefined) tell(events, object, reasons.WriteRefused, `its hold is not kept: ${refusal}`);
}

/** Once for each hold. */
async function tellStuck(
  { client, events }: HoldReconcilerOptions,
  { owner, decision, memory, context }: Found & { readonly memory: OwnerMemory; readonly context: Context },
): Promise<void> {
  const { held, finalizer } = decision;
  if (held?.isStuck !== true || memory.isStuckTold || finalizer !== undefined || events === undefined) return;
  memory.isStuckTold = true;
  const object = await orGone(
    client.get(resourceFor(owner), ownerName(owner), { signal: context.signal }),
    "notFound",
    "forbidden",
  );
  if (object?.metadata?.uid === owner.uid)
    tell(events, object, reasons.OwnerHeld, `its deletion waits for ${held.message}`);
}

/** @throws ApiError of kind conflict, on which the runtime looks again. */
async function patch(
  { client, events }: HoldReconcilerOptions,
  { owner, guard, decision, context }: Found & { readonly context: Context },
): Promise<void> {
  const { finalizer, reason, held } = decision;
  const { uid, resourceVersion, finalizers, deletionTimestamp } = owner;
  const seen: KubeObject = {
    metadata: {
      uid,
      resourceVersion,
      finalizers,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
  };
  const body = (finalizer === "Add" ? addFinalizer : removeFinalizer)(seen, guard.finalizer);
  if (body === undefined) return;
  const after = await orGone(
    client.patch(resourceFor(owner), ownerName(owner), body, { signal: context.signal }),
    "notFound",
    "uidMismatch",
  );
  if (after === undefined) return;
  context.log.info("finalizer of an owner changed", { owner: heldName(owner), finalizer, reason });
  if (reason === reasons.HoldTimedOut && events !== undefined) {
    const seconds = Math.max(...guard.footprints.map(({ hold }) => hold?.timeoutMs ?? 0)) / 1000;
    const note = `let go after ${seconds}s; it still waited for ${held?.message ?? "what it owns"}`;
    tell(events, after, reason, note);
  }
}

function tell(events: EventSink, object: KubeObject, reason: string, note: string): void {
  const { apiVersion = "", kind = "", metadata: { namespace = "", name = "", uid = "" } = {} } = object;
  events.record({
    regarding: { apiVersion, kind, name, uid, ...(namespace && { namespace }) },
    reason,
    note,
    type: "Warning",
    action: "HoldOwner",
  });
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

function resourceFor({ resource, namespace }: HeldOwner): ReturnType<typeof resourceOf> {
  return resourceOf(resource, namespace !== "");
}

function ownerName({ namespace, name }: HeldOwner): { readonly namespace: string; readonly name: string } {
  return { namespace, name };
}

function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}
