/** `clean` for WorkerPools: the Deployments that Berth made for them. */
import { eachObject, type Undo } from "@berth/host";
import { deployments, type KubeObject } from "@berth/kube";
import type { CleanOnce } from "../node/clean-once.ts";
import { WORKER_POOL_FIELD_MANAGER, WORKER_POOL_GROUP } from "./keys.ts";
import { workerPools } from "./resource.ts";

/** Deletes them if the document WorkerPools is given, and otherwise reports that they stay. */
export const poolsClean: CleanOnce<unknown> = {
  async clean(config, { run, isWanted }) {
    if (!isWanted) return {};
    return {
      async find() {
        const found: Undo[] = [];
        let staying = 0;
        await eachObject({ resource: deployments, metadataOnly: true }, run, (object) => {
          if (!isOfPool(object)) return;
          if (config === undefined) staying += 1;
          else {
            const what = "made for a WorkerPool, with its workers";
            found.push({ resource: deployments, object, what, how: { do: "delete" } });
          }
        });
        if (staying > 0)
          run.stderr.write(
            `${staying} ${staying === 1 ? "Deployment" : "Deployments"} of WorkerPools stay: give the document WorkerPools by --config FILE to delete them.\n`,
          );
        return found;
      },
    };
  },
};

/** The original's controller has the same field manager: only the configuration shows that Berth made them. */
function isOfPool({ metadata }: KubeObject): boolean {
  const controller = metadata?.ownerReferences?.find((it) => it.controller === true);
  return (
    controller?.kind === workerPools.kind &&
    controller.apiVersion.startsWith(`${WORKER_POOL_GROUP}/`) &&
    (metadata?.managedFields?.some(({ manager }) => manager === WORKER_POOL_FIELD_MANAGER) ?? false)
  );
}
