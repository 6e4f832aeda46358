import type { Deployment } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import { whyNotAllowed } from "./allowance.ts";
import { buildDeployment, type DeploymentBody, type WorkerPoolConfig } from "./deployment.ts";
import { differenceOf } from "./difference.ts";
import { workerPoolSpec } from "./document.ts";
import { WORKER_POOL_FIELD_MANAGER } from "./keys.ts";
import type { WorkerPool } from "./resource.ts";
import { toStoredPool } from "./resource.ts";

/** A pool and what stands under the name of its Deployment. */
export interface WorkerPoolObserved {
  readonly pool: WorkerPool;
  readonly deployment: Deployment | undefined;
}

/** Nothing in it: settled. */
export interface WorkerPoolDecision {
  readonly apply?: { readonly body: DeploymentBody; readonly reason: Reason; readonly message: string };
  /** What the status should say. */
  readonly replicas?: number;
  /** Why nothing can be made of the pool. */
  readonly fault?: string;
  /** Why nothing may be made of it. */
  readonly refusal?: string;
}

const nothing: WorkerPoolDecision = Object.freeze({});
const NONE = { images: [], namespaces: [], priorityClasses: [] };

/**
 * What a pool needs. One that is being deleted is left alone, its status too: what it owns must not come back while
 * others take it down.
 */
export function decideWorkerPool(
  { pool, deployment }: WorkerPoolObserved,
  config: WorkerPoolConfig,
): WorkerPoolDecision {
  const stored = toStoredPool(pool);
  if (stored === undefined || pool.metadata?.deletionTimestamp !== undefined) return nothing;
  const parsed = workerPoolSpec.safeParse(stored.spec);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { fault: `spec.${issue?.path.join(".") ?? ""}: ${issue?.message ?? "is not valid"}` };
  }
  const refusal = whyNotAllowed(stored, config.allow ?? NONE);
  if (refusal !== undefined) return { ...(deployment && replicasOf(pool, deployment)), refusal };
  const body = buildDeployment(stored, config);
  const { name } = body.metadata;
  if (deployment === undefined) {
    const message = `there is no Deployment ${name}`;
    return { apply: { body, reason: reasons.WorkerPoolDeploymentMissing, message } };
  }
  const replicas = replicasOf(pool, deployment);
  // It has to be gone first: whatever is applied to it goes with it.
  if (deployment.metadata?.deletionTimestamp !== undefined) return replicas;
  const message = differenceOf(body, deployment, WORKER_POOL_FIELD_MANAGER);
  if (message === undefined) return replicas;
  return { ...replicas, apply: { body, reason: reasons.WorkerPoolDeploymentDiffers, message } };
}

/** A status that says nothing says 0. A Deployment of somebody else says nothing of this pool. */
function replicasOf({ metadata, status }: WorkerPool, deployment: Deployment): WorkerPoolDecision {
  const owners = deployment.metadata?.ownerReferences ?? [];
  if (!owners.some(({ uid, controller }) => controller === true && uid === metadata?.uid)) return nothing;
  const replicas = deployment.status?.replicas ?? 0;
  return replicas === (status?.replicas ?? 0) ? nothing : { replicas };
}
