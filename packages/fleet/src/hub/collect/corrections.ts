import { isDeepStrictEqual } from "node:util";
import type { Instance, InstanceStatus } from "../../api/workload.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";

/** What makes an Instance of another plane right, as far as that can be changed. */
export interface Corrections {
  /** A merge patch of labels and gates. Labels of others stay. */
  readonly patch?: object | undefined;
  /** The whole status. */
  readonly status?: InstanceStatus | undefined;
}

/** Only gates may go from a spec: for all else the API server wants another Instance. */
export function mayBecome(present: Instance, wanted: Instance): boolean {
  const had = gatesOf(present);
  return (
    isSameSpec(withoutGates(present), withoutGates(wanted)) &&
    gatesOf(wanted).every((gate) => had.includes(gate))
  );
}

/** The parts of a template are most often one object in both: see `fleetObject`. Only the others are compared. */
function isSameSpec(one: Fields, other: Fields): boolean {
  const differing = Object.keys({ ...one, ...other }).filter((field) => one[field] !== other[field]);
  const textOf = (spec: Fields): string =>
    canonicalJson(Object.fromEntries(differing.map((field) => [field, spec[field]])));
  return differing.length === 0 || textOf(one) === textOf(other);
}

type Fields = Readonly<Record<string, unknown>>;

export function corrections(present: Instance, wanted: Instance): Corrections {
  const labels = Object.entries(wanted.metadata?.labels ?? {}).filter(
    ([key, value]) => present.metadata?.labels?.[key] !== value,
  );
  const areGatesRight = isDeepStrictEqual(gatesOf(present), gatesOf(wanted));
  const { schedulingGates = [] } = wanted.spec?.controller ?? {};
  const patch = {
    ...(labels.length > 0 && { metadata: { labels: Object.fromEntries(labels) } }),
    ...(!areGatesRight && { spec: { controller: { schedulingGates } } }),
  };
  return {
    ...(Object.keys(patch).length > 0 && { patch }),
    ...(!isDeepStrictEqual(present.status, wanted.status) && { status: wanted.status }),
  };
}

function gatesOf({ spec }: Instance): readonly string[] {
  return (spec?.controller?.schedulingGates ?? []).map(({ name }) => name);
}

function withoutGates({ spec }: Instance): Fields {
  const { schedulingGates: _gates, ...controller } = spec?.controller ?? {};
  return { ...spec, controller };
}
