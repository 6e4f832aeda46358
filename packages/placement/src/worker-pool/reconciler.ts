/** Makes a Deployment of each WorkerPool and keeps it so. */
import { type Condition, type Deployment, isApiError, isRefusalOfObject } from "@berth/kube";
import {
  type Clock,
  type Lister,
  mergeConditions,
  type ObjectKey,
  type Reconcile,
  type ReconcileContext,
  type ReconcileResult,
  referenceTo,
  withoutConditions,
} from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import type { EventSink } from "../node/report.ts";
import { contestOf, REFUSED_MS, STALE_MS, TemplateMemories, tell } from "../node/template-memory.ts";
import type { WorkerPoolApi } from "./api.ts";
import { decideWorkerPool, type WorkerPoolDecision } from "./decide.ts";
import type { WorkerPoolConfig } from "./deployment.ts";
import { deploymentNameOf } from "./keys.ts";
import { createPoolMemory, isAwaited, isOlder, noteApplied, type PoolMemory } from "./memory.ts";
import { type WorkerPool, workerPools } from "./resource.ts";

export interface WorkerPoolReconcilerOptions {
  readonly pools: Pick<Lister<WorkerPool>, "get">;
  /** Has to keep of those that belong to a pool what `slimDeployment` does. */
  readonly deployments: Pick<Lister<Deployment>, "get">;
  /** Have both been read completely? Nothing is decided before. */
  readonly isSynced: () => boolean;
  readonly api: WorkerPoolApi;
  /** `undefined`: switched off. Whatever stands is left as it is. */
  readonly config: () => WorkerPoolConfig | undefined;
  readonly clock: Clock;
  readonly events?: EventSink;
}

/** How soon it is looked again whether pools and Deployments have been read, ms. */
const UNREAD_MS = 1_000;

/**
 * Nothing is written while a pool and its Deployment agree, nor to a pool that is being deleted. What others change is
 * put back; after three applies of the same within ten minutes the Deployment is left alone for a while (`Contested`).
 */
export function createWorkerPoolReconciler(options: WorkerPoolReconcilerOptions): Reconcile<ObjectKey> {
  const memories = new TemplateMemories(createPoolMemory);
  return async (key, context) => {
    const config = options.config();
    const pool = options.pools.get(key);
    const { uid, deletionTimestamp } = pool?.metadata ?? {};
    if (config === undefined || uid === undefined || pool === undefined || deletionTimestamp !== undefined) {
      memories.forget(key);
      return undefined;
    }
    if (!options.isSynced()) return { recheckAfterMs: UNREAD_MS };
    const memory = memories.of(key, uid);
    const deployment = options.deployments.get({ ...key, name: deploymentNameOf(key.name) });
    const decision = decideWorkerPool({ pool, deployment }, config);
    const isBehind = isAwaited(memory, deployment?.metadata?.resourceVersion);
    const subject: Subject = { key, pool, uid, deployment, memory, isBehind };
    if (decision.fault !== undefined) warn(subject, options, reasons.WorkerPoolInvalid, decision.fault);
    if (decision.refusal !== undefined)
      warn(subject, options, reasons.WorkerPoolNotAllowed, decision.refusal);
    await report(subject, decision, options, context);
    const { apply } = decision;
    return apply === undefined ? undefined : keep({ ...subject, apply }, options, context);
  };
}

interface Subject {
  readonly key: ObjectKey;
  readonly pool: WorkerPool;
  readonly uid: string;
  readonly deployment: Deployment | undefined;
  readonly memory: PoolMemory;
  /** The cache has yet to show what was applied last. */
  readonly isBehind: boolean;
}

interface Wish extends Subject {
  readonly apply: NonNullable<WorkerPoolDecision["apply"]>;
}

/** Writes the status, unless that was done on a version that is still to come. */
async function report(
  { key, pool, uid, memory }: Subject,
  { replicas, refusal }: WorkerPoolDecision,
  { api, clock }: WorkerPoolReconcilerOptions,
  { signal, log }: ReconcileContext,
): Promise<void> {
  const conditions = conditionsOf(pool, refusal, clock.now());
  if (replicas === undefined && conditions === undefined) return;
  const { reported } = memory;
  const { resourceVersion = "" } = pool.metadata ?? {};
  const text = JSON.stringify([replicas, refusal]);
  // On the version that it was written to as well: the CRD of the original drops conditions, and the pool stays as it is.
  if (text === reported?.text && !isOlder(reported.resourceVersion, resourceVersion)) return;
  if (refusal !== undefined) log.warn("a WorkerPool is not allowed", { because: refusal });
  try {
    const status = { ...(replicas !== undefined && { replicas }), ...(conditions && { conditions }) };
    const { metadata } = await api.patchStatus(key, { metadata: { uid, resourceVersion }, status }, signal);
    memory.reported = { text, resourceVersion: metadata?.resourceVersion ?? "" };
  } catch (error) {
    if (!isApiError(error, "notFound")) throw error;
  }
}

/** `undefined`: they stay as they are. */
function conditionsOf(
  { metadata, status: { conditions: current = [] } = {} }: WorkerPool,
  refusal: string | undefined,
  nowMs: number,
): readonly Condition[] | undefined {
  const type = "Allowed";
  const { generation } = metadata ?? {};
  const said = {
    type,
    status: "False",
    reason: reasons.WorkerPoolNotAllowed,
    message: refusal ?? "",
    ...(generation !== undefined && { observedGeneration: generation }),
  } as const;
  const next =
    refusal === undefined ? withoutConditions(current, [type]) : mergeConditions(current, [said], nowMs);
  return next === current ? undefined : next;
}

async function keep(
  wish: Wish,
  options: WorkerPoolReconcilerOptions,
  { signal, log }: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const { memory, apply, deployment } = wish;
  const text = JSON.stringify(apply.body);
  const restraint = restraintOf(wish, text, options);
  if (restraint !== undefined) return { recheckAfterMs: restraint };
  if (!(await isStillWanted(wish, options, signal))) return { recheckAfterMs: STALE_MS };
  try {
    const { metadata } = await options.api.applyDeployment(toApply(wish), signal);
    log.info("applied the Deployment of a WorkerPool", { reason: apply.reason, because: apply.message });
    const from = deployment?.metadata?.resourceVersion;
    const to = metadata?.resourceVersion ?? "";
    return noteApplied(memory, { text, from, to, nowMs: options.clock.monotonic() });
  } catch (error) {
    if (!isApiError(error, "invalid", "forbidden")) throw error;
    warn(wish, options, reasons.WriteRefused, `its Deployment stays as it is: ${error.message}`);
    if (!isRefusalOfObject(error)) throw error;
    memory.refused = refusalOf(text, deployment);
    memory.retryAt = options.clock.monotonic() + REFUSED_MS;
    return { recheckAfterMs: REFUSED_MS };
  }
}

/** For how long not to write, ms. */
function restraintOf(wish: Wish, text: string, options: WorkerPoolReconcilerOptions): number | undefined {
  const { memory, deployment, isBehind } = wish;
  const now = options.clock.monotonic();
  // An answer of the server is believed against an older cache for so long; then the cache counts.
  const behindForMs = (memory.writes.at(-1) ?? now) + STALE_MS - now;
  if (memory.given.has(text) && behindForMs > 0 && isBehind) return behindForMs;
  if (memory.refused === refusalOf(text, deployment) && now < memory.retryAt) return memory.retryAt - now;
  const contest = deployment && contestOf(memory, [{ key: text }], now);
  if (contest?.started === true) {
    const what = `somebody keeps changing its Deployment (${wish.apply.message}): it is left alone for a while`;
    warn(wish, options, reasons.Contested, what);
  }
  return contest?.leftMs;
}

/** What was refused, and of which Deployment: either can become another that is not. */
function refusalOf(text: string, deployment: Deployment | undefined): string {
  return `${deployment?.metadata?.generation ?? 0} ${text}`;
}

/**
 * Asks the server itself whether the pool still is what was decided on. Watches of two resources are not in step: the end
 * of a Deployment, or of its ownership, can be seen before the deletion of the pool that brought it about, and must not
 * be undone then.
 */
async function isStillWanted(
  { key, pool, uid }: Subject,
  { api }: WorkerPoolReconcilerOptions,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const { metadata } = await api.readPool(key, signal);
    const isSame = metadata?.uid === uid && metadata.generation === pool.metadata?.generation;
    return isSame && metadata.deletionTimestamp === undefined;
  } catch (error) {
    if (isApiError(error, "notFound")) return false;
    throw error;
  }
}

/** Bound to what was decided on: a Deployment that was changed or deleted since is refused as a conflict, never made anew. */
function toApply({ apply, deployment }: Wish): Deployment {
  const { uid, resourceVersion } = deployment?.metadata ?? {};
  const bound = {
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
  };
  return { ...apply.body, metadata: { ...apply.body.metadata, ...bound } };
}

function warn(
  { pool, memory }: Subject,
  { events }: WorkerPoolReconcilerOptions,
  reason: Reason,
  note: string,
): void {
  const regarding = referenceTo(workerPools, pool);
  tell(memory, events, { regarding, reason, note, type: "Warning", action: "KeepWorkerPool" });
}
