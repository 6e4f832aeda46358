/** Makes a Deployment of each WorkerPool and keeps it so. */
import type { Finding, Intent, ObjectRules } from "@berth/host";
import { type Condition, type Deployment, deployments, isApiError, type KubeClient } from "@berth/kube";
import { type Clock, type Lister, mergeConditions, type ObjectKey, withoutConditions } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { decideWorkerPool, type WorkerPoolDecision } from "./decide.ts";
import type { WorkerPoolConfig } from "./deployment.ts";
import { deploymentNameOf, WORKER_POOL_FIELD_MANAGER as manager } from "./keys.ts";
import { type WorkerPool, workerPools } from "./resource.ts";

export interface WorkerPoolRulesOptions {
  /** Must keep the fields of `workerPoolReads` for each Deployment that belongs to a pool. */
  readonly deployments: Pick<Lister<Deployment>, "get">;
  /** Have pools and Deployments both been read completely? Berth decides nothing before. */
  readonly isSynced: () => boolean;
  readonly client: Pick<KubeClient, "get">;
  /** `undefined`: switched off. Berth leaves everything as it is. */
  readonly config: () => WorkerPoolConfig | undefined;
  readonly clock: Clock;
}

/** Delay before the next check whether pools and Deployments have been read, ms. */
const UNREAD_MS = 1_000;

/** Writes nothing while a pool and its Deployment agree, and nothing to a pool that is being deleted. */
export function workerPoolRules(options: WorkerPoolRulesOptions): ObjectRules<WorkerPool> {
  return {
    resource: workerPools,
    action: "KeepWorkerPool",
    decide(pool, _, key) {
      const config = options.config();
      if (config === undefined) return undefined;
      if (!options.isSynced()) return { recheckAfterMs: UNREAD_MS };
      const seen = options.deployments.get({ ...key, name: deploymentNameOf(key.name) });
      const decision = decideWorkerPool({ pool, deployment: seen }, config);
      return {
        findings: findingsOf(decision),
        intents: [
          ...statusOf(pool, decision, options.clock.now()),
          ...applyOf(decision, seen, (signal) => whyNot(options, pool, key, signal)),
        ],
      };
    },
  };
}

function findingsOf({ fault, refusal }: WorkerPoolDecision): readonly Finding[] {
  const { WorkerPoolInvalid, WorkerPoolNotAllowed } = reasons;
  if (fault !== undefined) return [{ reason: WorkerPoolInvalid, message: fault, about: fault }];
  return refusal === undefined ? [] : [{ reason: WorkerPoolNotAllowed, message: refusal, about: refusal }];
}

function statusOf(
  pool: WorkerPool,
  { replicas, refusal }: WorkerPoolDecision,
  nowMs: number,
): readonly Intent[] {
  const conditions = conditionsOf(pool, refusal, nowMs);
  if (replicas === undefined && conditions === undefined) return [];
  const status = { ...(replicas !== undefined && { replicas }), ...(conditions && { conditions }) };
  const message = refusal ?? `${replicas ?? "as many"} replicas`;
  return [
    {
      do: "patch",
      patch: { type: "merge", body: { status } },
      subresource: "status",
      manager,
      reason: refusal === undefined ? reasons.WorkerPoolDeploymentDiffers : reasons.WorkerPoolNotAllowed,
      message,
      what: "its status",
      // The original's CRD drops conditions: do not write the same status again and again.
      gives: [JSON.stringify([replicas, refusal])],
    },
  ];
}

/** `undefined`: the conditions stay as they are. */
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

function applyOf(
  { apply }: WorkerPoolDecision,
  seen: Deployment | undefined,
  unless: NonNullable<Intent["unless"]>,
): readonly Intent[] {
  if (apply === undefined) return [];
  const { body, reason, message } = apply;
  const what = "its Deployment";
  const contested = `another writer keeps changing ${what} (${message}): Berth leaves it alone for a while`;
  const on = { resource: deployments, seen };
  return [{ do: "apply", on, body, manager, reason, message, what, contested, unless }];
}

/**
 * Asks the API server itself whether the pool still is the one of the decision. Watches of two resources are not in
 * step. Berth may see the end of a Deployment, or of its ownership, before the deletion of the pool that caused it.
 * Berth must not undo that end.
 */
async function whyNot(
  { client }: WorkerPoolRulesOptions,
  pool: WorkerPool,
  { namespace, name }: ObjectKey,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { metadata } = await client.get(workerPools, { namespace, name }, { signal });
    const { uid, generation } = pool.metadata ?? {};
    const isSame = metadata?.uid === uid && metadata?.generation === generation;
    return isSame && metadata?.deletionTimestamp === undefined ? undefined : "the pool has changed";
  } catch (error) {
    if (isApiError(error, "notFound")) return "the pool is gone";
    throw error;
  }
}
