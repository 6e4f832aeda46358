/** Rules about CPU and memory that a container names itself. Admission and the size of an Instance share them. */
import { parseQuantity } from "@berth/runtime";
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";

const NAMES: readonly string[] = ["cpu", "memory"];

/** 1P, in the units of `parseQuantity`. A claim counts in numbers that JSON keeps exactly. */
const MAX_AMOUNT = 10n ** 24n;

/** Is it an amount that something can have? 0 is none: as a limit it stands for no limit. */
export function isAmount(nano: bigint | undefined): nano is bigint {
  return nano !== undefined && nano > 0n && nano <= MAX_AMOUNT;
}

/**
 * A container has limits for both, above 0, or it has none. What it requests is what it is limited to: a claim asks for
 * the limits, and a Pod that requests less than that would run where there is no room for it.
 */
export function* resourceFaults(resources: Field): Faults {
  const [limits, requests] = [resources.get("limits"), resources.get("requests")];
  if (limits.keys.length + requests.keys.length === 0) return;
  for (const name of NAMES) {
    const limit = limits.key(name);
    if (!limit.isSet) yield limit.required("a container has limits for cpu and memory, or none");
    else if (!isAmount(amountOf(limit))) yield limit.invalid("must be a quantity above 0, and at most 1P");
  }
  for (const name of limits.keys)
    if (!NAMES.includes(name)) yield limits.key(name).forbidden("only cpu and memory can be limited");
  for (const name of requests.keys)
    if (amountOf(requests.key(name)) !== amountOf(limits.key(name)))
      yield requests.key(name).invalid("must be equal to the limit, or absent");
}

function amountOf({ value }: Field): bigint | undefined {
  return typeof value === "string" || typeof value === "number" ? parseQuantity(String(value)) : undefined;
}
