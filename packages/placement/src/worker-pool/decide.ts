import type { Deployment } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import { whyNotAllowed } from "./allowance.ts";
import { buildDeployment, type DeploymentBody, type WorkerPoolConfig } from "./deployment.ts";
import { differenceOf } from "./difference.ts";
import { workerPoolSpec } from "./document.ts";
import { WORKER_POOL_FIELD_MANAGER } from "./keys.ts";
import type { WorkerPool } from "./resource.ts";
import { toStoredPool } from "./resource.ts";

/** A pool, and the Deployment that exists under its name. */
export interface WorkerPoolObserved {
  readonly pool: WorkerPool;
  readonly deployment: Deployment | undefined;
}

/** Empty: settled. */
export interface WorkerPoolDecision {
  readonly apply?: { readonly body: DeploymentBody; readonly reason: Reason; readonly message: string };
  /** The count for the status. */
  readonly replicas?: number;
  /** Why Berth cannot make a Deployment of the pool. */
  readonly fault?: string;
  /** Why the lists do not allow the pool. */
  readonly refusal?: string;
}

const nothing: WorkerPoolDecision = Object.freeze({});
const NONE = { images: [], namespaces: [], priorityClasses: [] };

/**
 * Decides what a pool needs. Berth leaves a pool that is being deleted alone, also its status. Its Deployment must not
 * come back while other controllers delete it.
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
  // The old Deployment must be gone first: its deletion would also remove the result of an apply.
  if (deployment.metadata?.deletionTimestamp !== undefined) return replicas;
  const message = differenceOf(body, deployment, WORKER_POOL_FIELD_MANAGER);
  if (message === undefined) return replicas;
  return { ...replicas, apply: { body, reason: reasons.WorkerPoolDeploymentDiffers, message } };
}

/** A status without a count means 0. A Deployment of another owner says nothing about this pool. */
function replicasOf({ metadata, status }: WorkerPool, deployment: Deployment): WorkerPoolDecision {
  const owners = deployment.metadata?.ownerReferences ?? [];
  if (!owners.some(({ uid, controller }) => controller === true && uid === metadata?.uid)) return nothing;
  const replicas = deployment.status?.replicas ?? 0;
  return replicas === (status?.replicas ?? 0) ? nothing : { replicas };
}
