/** The parts of a running Berth that have to do with WorkerPools: there, and at rest until a document switches them on. */
import { createWorkerPools, type WorkerPoolsOptions } from "@berth/placement";
import { isSameData } from "@berth/runtime";
import type { Settings } from "./config/settings.ts";
import { workerPoolConfig } from "./config/worker-pools.ts";
import type { Wired } from "./wired.ts";

export function createWorkerPoolParts(options: WorkerPoolsOptions): Wired {
  const pools = createWorkerPools(options);
  let current: Settings["workerPools"];
  return {
    onSettings({ workerPools: read }) {
      // Files are read again for each change of any of them.
      if (isSameData(read, current)) return;
      current = read;
      pools.configure(workerPoolConfig(read));
    },
    components: { caches: [pools.watch], elected: [pools.controller] },
  };
}
