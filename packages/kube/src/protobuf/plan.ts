import type { Fields } from "../client.ts";
import type { Field, Kind, Message } from "./messages.ts";

/** The wanted fields of a message, by number. What is not wanted is skipped without being decoded. */
export interface Plan {
  readonly fields: readonly (PlannedField | undefined)[];
  /** Each field is wanted, so one that is not here is from a later release. */
  readonly isWhole: boolean;
}

export interface PlannedField extends Omit<Field, "kind"> {
  readonly kind: Exclude<Kind, Message> | Plan;
}

/** `undefined` when a wanted field is not in `message`. With `known`: all fields that are. */
export function planOf(message: Message, wanted: "known"): Plan;
export function planOf(message: Message, wanted: Wanted): Plan | undefined;
export function planOf(message: Message, wanted: Wanted): Plan | undefined {
  if (wanted === "all" && !message.isWhole) return undefined;
  const missing = new Set(typeof wanted === "string" ? [] : Object.keys(wanted));
  const fields: PlannedField[] = [];
  for (const [number, field] of Object.entries(message.fields)) {
    const below = typeof wanted === "string" ? wanted : wanted[field.name];
    if (below === undefined) continue;
    missing.delete(field.name);
    const kind = kindOf(field, below);
    if (kind === undefined) return undefined;
    fields[Number(number)] = { ...field, kind };
  }
  return missing.size === 0 ? { fields, isWhole: wanted === "all" } : undefined;
}

type Wanted = Fields | "all" | "known";

function kindOf({ kind }: Field, wanted: Wanted): PlannedField["kind"] | undefined {
  if (typeof kind !== "string") return planOf(kind, wanted);
  return typeof wanted === "string" ? kind : undefined;
}
