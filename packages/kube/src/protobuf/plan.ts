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

/** `undefined` when a wanted field is not in `message`. */
export function planOf(message: Message, wanted: Fields | "all"): Plan | undefined {
  if (wanted === "all" && !message.isWhole) return undefined;
  const missing = new Set(wanted === "all" ? [] : Object.keys(wanted));
  const fields: PlannedField[] = [];
  for (const [number, field] of Object.entries(message.fields)) {
    const below = wanted === "all" ? wanted : wanted[field.name];
    if (below === undefined) continue;
    missing.delete(field.name);
    const kind = kindOf(field, below);
    if (kind === undefined) return undefined;
    fields[Number(number)] = { ...field, kind };
  }
  return missing.size === 0 ? { fields, isWhole: wanted === "all" } : undefined;
}

/** All that is known of a message. */
export function planOfKnown(message: Message): Plan {
  const fields: PlannedField[] = [];
  for (const [number, field] of Object.entries(message.fields)) {
    const { kind } = field;
    fields[Number(number)] = { ...field, kind: typeof kind === "string" ? kind : planOfKnown(kind) };
  }
  return { fields, isWhole: false };
}

function kindOf({ kind }: Field, wanted: Fields | "all"): PlannedField["kind"] | undefined {
  if (typeof kind !== "string") return planOf(kind, wanted);
  return wanted === "all" ? kind : undefined;
}
