export type { WorkerPoolAllowance } from "./allowance.ts";
export { poolsClean } from "./clean.ts";
export {
  buildDeployment,
  type DeploymentBody,
  PR_134_POOLS,
  type WorkerPoolConfig,
  type WorkerPoolWait,
} from "./deployment.ts";
export type { WorkerPoolSpec, WorkerPoolStatus, WorkerPoolTemplate } from "./document.ts";
export * from "./keys.ts";
export { type WorkerPool, workerPoolKind, workerPools } from "./resource.ts";
export { workerPoolsKind } from "./settings.ts";
export { workerPool } from "./wiring.ts";
export { createWorkerPools, type WorkerPools, type WorkerPoolsOptions } from "./worker-pools.ts";
