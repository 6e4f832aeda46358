/** Wires WorkerPools into a running Berth. They stay off until a document switches them on. */
import { isSameData } from "@berth/runtime";
import type { NodeCapability } from "../node/wired.ts";
import { poolsClean } from "./clean.ts";
import { type WorkerPoolConfig } from "./deployment.ts";
import { poolPermissions } from "./permissions.ts";
import { workerPoolKind } from "./resource.ts";
import { workerPoolsKind } from "./settings.ts";
import { createWorkerPools } from "./worker-pools.ts";

export const workerPool: NodeCapability = {
  name: "worker-pools",
  kinds: [workerPoolsKind],
  foreignKinds: [workerPoolKind],
  permissions: poolPermissions,
  once: () => ({
    does: ["clean"],
    async read({ files: { settings } }) {
      const pools = settings.specOf(workerPoolsKind);
      const isGiven = pools !== undefined;
      return { isGiven, faults: [], stops: [], refused: [], clean: (at) => poolsClean.clean(pools, at) };
    },
  }),
  wire(host) {
    const pools = createWorkerPools(host);
    let current: WorkerPoolConfig | undefined;
    host.onFiles((settings) => {
      const read = settings.specOf(workerPoolsKind);
      // Berth reads all files again when one of them changes.
      if (isSameData(read, current)) return;
      current = read;
      pools.configure(read);
    });
    host.add(pools.views.components, "caches");
    host.add([pools.controller], "elected");
    return {};
  },
};
