/** Rules about the size of a template and of all its Instances. */
import { MAX_REPLICAS } from "../deployment/control.ts";
import { type SizeLimits, sizeProblems, templateSize } from "../deployment/template-size.ts";
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";

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
}

/** Sum over all cities of all placements. */
function instancesOf(workload: Field): number {
  return workload
    .get("spec")
    .get("placements")
    .items()
    .map((placement) => {
      const each = placement.get("scaleSettings").get("minReplicas").integer;
      return placement.get("cityCodes").size * Math.min(Math.max(each, 0), MAX_REPLICAS);
    })
    .reduce((sum, count) => sum + count, 0);
}
