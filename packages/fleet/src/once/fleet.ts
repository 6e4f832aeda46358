/** Reads what the project and the hub know of all cities, for a command. */
import { keepFields, listObjects, type OneShotRun } from "@berth/host";
import { type Namespace, namespaces } from "@berth/kube";
import { type Instance, instances, workloadDeployments, workloads } from "../api/workload.ts";
import { type FleetLine, fleetLines, isDeploymentAtRest } from "../explain/fleet-lines.ts";

const instanceFields = keepFields<Instance>(["metadata", "spec.controller", "status.conditions"]);

/** No cell is asked. @returns `undefined` where the server does not serve or allow deployments. */
export async function readFleetLines(run: OneShotRun): Promise<readonly FleetLine[] | undefined> {
  const deployments = await listObjects({ resource: workloadDeployments }, run);
  if (deployments === undefined) return undefined;
  const consequence = "cities without a deployment are not shown";
  const found = (await listObjects({ resource: workloads, consequence }, run)) ?? [];
  const isQuiet = deployments.every(isDeploymentAtRest);
  const reasons = { consequence: "reasons are not complete" };
  return fleetLines({
    workloads: found,
    deployments,
    instances: isQuiet
      ? []
      : ((await listObjects<Instance>({ resource: instances, project: instanceFields, ...reasons }, run)) ??
        []),
    // Only those of the hub have the names of projects.
    namespaces:
      found.length > 0
        ? []
        : ((await listObjects<Namespace>(
            { resource: namespaces, metadataOnly: true, consequence: "projects are not shown" },
            run,
          )) ?? []),
  });
}
