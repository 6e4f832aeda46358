/** Rules about the size of a template and of all its Instances, and the number of deployments. */
import { MAX_REPLICAS } from "../deployment/control.ts";
import { type SizeLimits, sizeProblems, templateSize } from "../deployment/template-size.ts";
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";

/** Of one Workload. A look at it reads all of them, and each change of one of them brings a look. */
const MAX_DEPLOYMENTS = 1000;

export function* sizeFaults(workload: Field, old: Field, limits: SizeLimits): Faults {
  const template = workload.get("spec").get("template");
  const size = templateSize(template.value);
  // Less than what is stored is welcome, also if it is still too much: a Workload can be scaled down in steps.
  const total = Math.max(
    limits.total,
    templateSize(old.get("spec").get("template").value) * instancesOf(old),
  );
  for (const problem of sizeProblems(size, instancesOf(workload), { ...limits, total }))
    yield template.invalid(problem);
  const deployments = sumOverCities(workload, () => 1);
  const stored = sumOverCities(old, () => 1);
  const placements = workload.get("spec").get("placements");
  // A Workload with more can be scaled as it is.
  if (deployments > Math.max(MAX_DEPLOYMENTS, stored))
    yield placements.invalid(`must have at most ${MAX_DEPLOYMENTS} cities over all placements`, deployments);
}

function instancesOf(workload: Field): number {
  return sumOverCities(workload, (placement) =>
    Math.min(Math.max(placement.get("scaleSettings").get("minReplicas").integer, 0), MAX_REPLICAS),
  );
}

/** @param each of one city of a placement. */
function sumOverCities(workload: Field, each: (placement: Field) => number): number {
  const placements = workload.get("spec").get("placements").items();
  return placements.reduce((sum, it) => sum + it.get("cityCodes").size * each(it), 0);
}
