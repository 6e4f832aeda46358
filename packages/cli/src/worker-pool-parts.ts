/** The parts of a running Berth that have to do with WorkerPools: there, and at rest until a document switches them on. */
import {
  createWorkerPools,
  type WorkerPoolConfig,
  type WorkerPoolsOptions,
  workerPoolsKind,
} from "@berth/placement";
import { isSameData } from "@berth/runtime";
import type { Wired } from "./wired.ts";

export function createWorkerPoolParts(options: WorkerPoolsOptions): Wired {
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
