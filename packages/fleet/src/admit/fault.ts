/** Faults of an object, in the words of `field.Error` (k8s.io/apimachinery/pkg/util/validation/field). */
import type { FailureCause } from "@berth/kube";

export type FaultType =
  | "Required"
  | "Invalid"
  | "NotSupported"
  | "Duplicate"
  | "NotFound"
  | "Forbidden"
  | "Internal";

export interface Fault {
  readonly type: FaultType;
  /** `spec.placements[0].name` */
  readonly field: string;
  /** `Required value: must specify a target value` */
  readonly message: string;
  /** The field, with the names of list items and not their indexes. */
  readonly place: string;
  /** Of the field. */
  readonly value: unknown;
}

/** What a rule finds. Rules are generators, so that a caller can stop a hostile object after some faults. */
export type Faults = Generator<Fault, void, undefined>;

/** Of a text in a message. Longer ones are cut, so that a message stays readable. */
const MAX_QUOTED = 100;

/** Of the supported values in a message. */
const MAX_LISTED = 50;

/** A value for a message. An absent one is `""`, as in Go. */
export function quoted(value: unknown): string {
  if (value === undefined || value === null) return '""';
  if (typeof value === "object") return Array.isArray(value) ? "[…]" : "{…}";
  const isLong = typeof value === "string" && value.length > MAX_QUOTED;
  return JSON.stringify(isLong ? `${value.slice(0, MAX_QUOTED)}…` : value);
}

/** `"DFW", "ORD"` */
export function listed(values: readonly string[]): string {
  if (values.length === 0) return "none";
  const more = values.length - MAX_LISTED;
  const shown = values.slice(0, MAX_LISTED).map(quoted).join(", ");
  return more > 0 ? `${shown} and ${more} more` : shown;
}

/** Of the stored object that are remembered. A hostile object has as many faults as bytes. */
const MAX_STORED = 1000;

/**
 * The faults that the stored object does not have. A fault is the same when its type, message, value and place are, so
 * an item of a list keeps its faults wherever it moves.
 */
export function* newFaults(faults: Faults, stored: Faults): Faults {
  const keyOf = ({ field: _field, ...fault }: Fault): string => JSON.stringify(fault);
  let known: Map<string, number> | undefined;
  for (const fault of faults) {
    known ??= counted(stored.take(MAX_STORED).map(keyOf));
    const left = known.get(keyOf(fault)) ?? 0;
    // Each of them counts once: one more of the same words is new.
    if (left === 0) yield fault;
    else known.set(keyOf(fault), left - 1);
  }
}

function counted(keys: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

/** As a cause in the `details` of a Status. Reasons: `CauseType` of k8s.io/apimachinery/pkg/apis/meta/v1. */
export function toCause({ type, field, message }: Fault): Required<FailureCause> {
  return { reason: type === "Internal" ? "InternalError" : `FieldValue${type}`, field, message };
}
