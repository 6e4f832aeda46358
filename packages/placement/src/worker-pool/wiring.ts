/** The parts of a running Berth that have to do with WorkerPools: there, and at rest until a document switches them on. */

import { isSameData } from "@berth/runtime";
import type { Wired } from "../node/wired.ts";
import { type WorkerPoolConfig } from "./deployment.ts";
import { workerPoolsKind } from "./settings.ts";
import { createWorkerPools, type WorkerPoolsOptions } from "./worker-pools.ts";

export function wireWorkerPools(options: WorkerPoolsOptions): Wired {
  const pools = createWorkerPools(options);
  let current: WorkerPoolConfig | undefined;
  return {
    onSettings(settings) {
      const read = settings.specOf(workerPoolsKind);
      // Files are read again for each change of any of them.
      if (isSameData(read, current)) return;
      current = read;
      pools.configure(read);
    },
    components: { caches: [pools.watch], elected: [pools.controller] },
  };
}
