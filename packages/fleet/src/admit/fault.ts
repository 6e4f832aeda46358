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

/** As a cause in the `details` of a Status. Reasons: `CauseType` of k8s.io/apimachinery/pkg/apis/meta/v1. */
export function toCause({ type, field, message }: Fault): Required<FailureCause> {
  return { reason: type === "Internal" ? "InternalError" : `FieldValue${type}`, field, message };
}
