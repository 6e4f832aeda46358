/** The parts of a running Berth that have to do with WorkerPools: there, and at rest until a document switches them on. */
import { createWorkerPools, type WorkerPoolsOptions } from "@berth/placement";
import { type Component, isSameData } from "@berth/runtime";
import type { Settings } from "./config/settings.ts";
import { workerPoolConfig } from "./config/worker-pools.ts";

export interface WorkerPoolParts {
  /** Gets the configuration files as they change. */
  readonly onSettings: (settings: Settings) => void;
  readonly watches: readonly Component[];
  /** What the leader runs. */
  readonly elected: readonly Component[];
}

export function createWorkerPoolParts(options: WorkerPoolsOptions): WorkerPoolParts {
  const pools = createWorkerPools(options);
  let current: Settings["workerPools"];
  return {
    onSettings({ workerPools: read }) {
      // Files are read again for each change of any of them.
      if (isSameData(read, current)) return;
      current = read;
      pools.configure(workerPoolConfig(read));
    },
    watches: [pools.watch],
    elected: [pools.controller],
  };
}
