import type { Fields } from "../client.ts";
import type { Field, Kind, Message } from "./messages.ts";

/** The wanted fields of a message, by number. What is not wanted is skipped without being decoded. */
export type Plan = readonly (PlannedField | undefined)[];

export interface PlannedField extends Omit<Field, "kind"> {
  readonly kind: Exclude<Kind, Message> | Plan;
}

/** `undefined` when a wanted field is not in `message`. */
export function planOf(message: Message, wanted: Fields | "all"): Plan | undefined {
  if (wanted === "all" && !message.isWhole) return undefined;
  const missing = new Set(wanted === "all" ? [] : Object.keys(wanted));
  const plan: PlannedField[] = [];
  for (const [number, field] of Object.entries(message.fields)) {
    const below = wanted === "all" ? wanted : wanted[field.name];
    if (below === undefined) continue;
    missing.delete(field.name);
    const kind = kindOf(field, below);
    if (kind === undefined) return undefined;
    plan[Number(number)] = { ...field, kind };
  }
  return missing.size === 0 ? plan : undefined;
}

/** All that is known of a message. */
export function wholePlan({ fields }: Message): Plan {
  const plan: PlannedField[] = [];
  for (const [number, field] of Object.entries(fields)) {
    const { kind } = field;
    plan[Number(number)] = { ...field, kind: typeof kind === "string" ? kind : wholePlan(kind) };
  }
  return plan;
}

function kindOf({ kind }: Field, wanted: Fields | "all"): PlannedField["kind"] | undefined {
  if (typeof kind !== "string") return planOf(kind, wanted);
  return wanted === "all" ? kind : undefined;
}
