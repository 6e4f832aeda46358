/** Reads Workloads once, and what belongs to those that are not at rest. */
import { keepFields, listObjects, type OneShotRun } from "@berth/host";
import { type Instance, instances, workloadDeployments, workloads } from "../api/workload.ts";
import { isAtRest, overview, type WorkloadLine } from "../explain/overview.ts";

const instanceFields = keepFields<Instance>(["metadata", "spec.controller", "status.conditions"]);
const consequence = "reasons are not complete";

/** @param namespace `undefined`: all. @returns `undefined` where the server does not serve or allow them. */
export async function readOverview(
  run: OneShotRun,
  namespace: string | undefined,
): Promise<readonly WorkloadLine[] | undefined> {
  const scope = namespace === undefined ? {} : { namespace };
  const found = await listObjects({ resource: workloads, ...scope }, run);
  if (found === undefined || found.every(isAtRest)) return found && overview(found, [], []);
  const deployments = await listObjects({ resource: workloadDeployments, ...scope, consequence }, run);
  const ofInstances = { resource: instances, ...scope, project: instanceFields, consequence };
  return overview(found, deployments ?? [], (await listObjects<Instance>(ofInstances, run)) ?? []);
}
