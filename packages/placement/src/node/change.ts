import type { Reason } from "../api/reasons.ts";
import type { Mark, MarkId } from "./mark.ts";
import type { RecordedMark } from "./record.ts";

/** One thing that a plan does to a node, with its why. */
export interface Change {
  readonly id: MarkId;
  /** `adopt` and `record` change the ownership record only. */
  readonly action: "add" | "overwrite" | "remove" | "adopt" | "record";
  readonly capability: string;
  readonly rule: string;
  /** What stands now, and what will; absent for nothing. */
  readonly before?: string;
  readonly after?: string;
  readonly reason: Reason;
  /** As its mark says. */
  readonly announce?: NonNullable<Mark["announce"]>;
  /** The entry of the record afterwards; `null` drops it, absent leaves it as it is. */
  readonly entry?: RecordedMark | null;
}
