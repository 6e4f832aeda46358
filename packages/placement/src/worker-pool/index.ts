export type { WorkerPoolAllowance } from "./allowance.ts";
export {
  buildDeployment,
  type DeploymentBody,
  PR_134_POOLS,
  type WorkerPoolConfig,
  type WorkerPoolWait,
} from "./deployment.ts";
export * from "./keys.ts";
export type { WorkerPoolSpec, WorkerPoolStatus, WorkerPoolTemplate } from "./worker-pool.ts";
export { type WorkerPool, workerPools } from "./worker-pool-resource.ts";
export { createWorkerPools, type WorkerPools, type WorkerPoolsOptions } from "./worker-pools.ts";
