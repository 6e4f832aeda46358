/** What `berth clean` takes back from the objects of a Fleet. */
import { counted, eachObject, type OneShotRun, type Undo } from "@berth/host";
import type { Resource } from "@berth/kube";
import { hasFinalizer, removeFinalizer } from "@berth/runtime";
import { finalizers } from "../api/keys.ts";
import { instances, workloadDeployments, workloads } from "../api/workload.ts";
import type { FleetSpec } from "../fleet/document.ts";

/**
 * Finds the finalizers that without Berth would block each deletion forever. Then the garbage collector deletes what
 * belongs to a deleted Workload. The finalizer of a claim stays: without it the claim would use its budget forever.
 */
export async function findFleetWork(
  { mode }: Pick<FleetSpec, "mode">,
  run: OneShotRun,
): Promise<readonly Undo[]> {
  const found: Undo[] = [];
  let claims = 0;
  const kinds: readonly (readonly [Resource, string])[] = [
    ...(mode === "single" ? [[workloads, finalizers.workload] as const] : []),
    [workloadDeployments, finalizers.workload],
    [instances, finalizers.instance],
  ];
  for (const [resource, finalizer] of kinds) {
    const what = `finalizer ${finalizer}`;
    await eachObject({ resource, metadataOnly: true, consequence: `${what} stays` }, run, (object) => {
      if (hasFinalizer(object, finalizers.claim)) claims += 1;
      const patch = removeFinalizer(object, finalizer);
      if (patch !== undefined) found.push({ resource, object, what, how: { do: "patch", patch } });
    });
  }
  if (claims > 0)
    run.stderr.write(
      `${counted(claims, "Instance")} with a quota claim: the finalizer ${finalizers.claim} stays. ` +
        "Delete Workloads while Berth runs, or each claim and this finalizer by hand.\n",
    );
  return found;
}
