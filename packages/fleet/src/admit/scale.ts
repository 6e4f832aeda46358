/** Rules about `scaleSettings`. */
import { parseQuantity } from "@berth/runtime";
import { MAX_REPLICAS } from "../deployment/control.ts";
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";

export function* scaleFaults(settings: Field): Faults {
  const [least, most] = [settings.get("minReplicas"), settings.get("maxReplicas")];
  const metrics = settings.get("metrics");
  if (least.integer <= 0) yield least.invalid("must be greater than 0", least.value ?? 0);
  if (least.integer > MAX_REPLICAS) yield least.invalid(`must be less than or equal to ${MAX_REPLICAS}`);
  if (!most.isSet) {
    if (metrics.size > 0) yield metrics.forbidden("may not be set without maxReplicas");
    return;
  }
  if (most.integer < least.integer) yield most.invalid("must be greater than or equal to minReplicas");
  if (metrics.size === 0) yield metrics.required("must provide scaling metrics when maxReplicas is provided");
  for (const metric of metrics.items()) yield* metricFaults(metric.get("resource"));
}

function* metricFaults(resource: Field): Faults {
  if (!resource.isSet) {
    yield resource.required();
    return;
  }
  const [name, target] = [resource.get("name"), resource.get("target")];
  if (name.text !== "cpu") yield name.notSupported(["cpu"]);
  const [first, ...others] = ["value", "averageValue", "averageUtilization"]
    .map((it) => target.get(it))
    .filter(({ isSet }) => isSet);
  if (first === undefined) {
    yield target.required("must specify a target value");
    return;
  }
  if (first.path.endsWith(".averageUtilization")) {
    if (first.integer < 1) yield first.invalid("must be greater than 0");
  } else if ((quantityOf(first) ?? 0n) <= 0n) yield first.invalid("must be positive");
  for (const other of others) yield other.forbidden("may not specify more than 1 target value");
}

/** In units of 10⁻⁹. `undefined`: it is none. */
export function quantityOf({ value }: Field): bigint | undefined {
  return typeof value === "string" || typeof value === "number" ? parseQuantity(String(value)) : undefined;
}
