/** How large an Instance is. Its claim asks for that, and its Pod gets that: there is no other computation. Pure. */
import { parseQuantity } from "@berth/runtime";
import { Field } from "../admit/field.ts";
import { isAmount, resourceFaults } from "../admit/resources.ts";
import type { InstanceSpec, Quantity } from "../api/workload.ts";
import type { Catalog, InstanceType } from "../fleet/document.ts";

export interface Size {
  /**
   * First of: the sum of the limits, if every container has both; the requests of the runtime; the catalog. `undefined`:
   * none of them says it.
   */
  readonly total: InstanceType | undefined;
  /** The limits of each container, in their order. */
  readonly containers: readonly (InstanceType | undefined)[];
  /** Why nothing of this size may run, as a sentence. The claim asks for the total nevertheless. */
  readonly fault?: string;
}

export function sizeOf(spec: InstanceSpec | undefined, catalog: Catalog): Size {
  const { sandbox, resources } = spec?.runtime ?? {};
  const given = sandbox?.containers ?? [];
  const containers = given.map((container) => sizeIn(container.resources?.limits));
  const type = resources?.instanceType ?? "";
  const total =
    sumOf(containers) ??
    sizeIn(resources?.requests) ??
    (Object.hasOwn(catalog, type) ? catalog[type] : undefined);
  const [wrong] = given.flatMap((it, at) =>
    resourceFaults(new Field(`runtime.sandbox.containers[${at}].resources`, it.resources))
      .take(1)
      .toArray(),
  );
  if (wrong !== undefined) return { total, containers, fault: `spec.${wrong.field}: ${wrong.message}` };
  if (total !== undefined) return { total, containers };
  const fault = `The catalog of this cell has no instance type ${type}. Choose another type.`;
  return { total, containers, fault };
}

/** `undefined` unless all are there, and at least one. */
function sumOf(sizes: readonly (InstanceType | undefined)[]): InstanceType | undefined {
  const known = sizes.filter((size) => size !== undefined);
  if (known.length === 0 || known.length < sizes.length) return undefined;
  return {
    millicores: known.reduce((sum, { millicores }) => sum + millicores, 0),
    mebibytes: known.reduce((sum, { mebibytes }) => sum + mebibytes, 0),
  };
}

/** `undefined` unless both `cpu` and `memory` are quantities above 0: a limit of 0 is none. */
function sizeIn(list: Readonly<Record<string, Quantity>> | undefined): InstanceType | undefined {
  const millicores = amountOf(list?.["cpu"], NANO / 1000n);
  const mebibytes = amountOf(list?.["memory"], NANO * 2n ** 20n);
  return millicores === undefined || mebibytes === undefined ? undefined : { millicores, mebibytes };
}

/** `parseQuantity` counts in these. */
const NANO = 1_000_000_000n;

/** Rounded up to whole units of `per`. */
function amountOf(quantity: Quantity | undefined, per: bigint): number | undefined {
  const nano = quantity === undefined ? undefined : parseQuantity(String(quantity));
  return isAmount(nano) ? Number((nano + per - 1n) / per) : undefined;
}
