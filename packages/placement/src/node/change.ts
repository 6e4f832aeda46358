import type { Reason } from "../api/reasons.ts";
import type { Mark, MarkId } from "./mark.ts";
import type { RecordedMark } from "./record.ts";

/** One change of a plan to a node, with its reason. */
export interface Change {
  readonly id: MarkId;
  /** `adopt` and `record` change the ownership record only. */
  readonly action: "add" | "overwrite" | "remove" | "adopt" | "record";
  readonly capability: string;
  readonly rule: string;
  /** The values before and after the change; absent for no value. */
  readonly before?: string;
  readonly after?: string;
  readonly reason: Reason;
  /** `announce` of the mark. */
  readonly announce?: NonNullable<Mark["announce"]>;
  /** The new entry in the record. `null` deletes the entry; absent keeps it. */
  readonly entry?: RecordedMark | null;
}
