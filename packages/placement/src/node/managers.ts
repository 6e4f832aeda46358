import type { ManagedFieldsEntry, Node } from "@berth/kube";
import { FIELD_MANAGER } from "../api/keys.ts";
import { ownedAt } from "./managed-fields.ts";
import { type MarkId, type MarkPlace, parseMarkId, standingValue } from "./mark.ts";
import { parseRecord, stringifyRecord } from "./record.ts";

/** Who, according to `metadata.managedFields`, last wrote a place of a node. */
export interface FieldHolder {
  readonly manager: string;
  readonly time?: string;
}

/** The managers that hold this place, in order of name. Taints are held as one list. */
export function holdersOf(fields: readonly ManagedFieldsEntry[], id: MarkId): readonly FieldHolder[] {
  const place = parseMarkId(id);
  if (place === undefined) return [];
  const path = pathOf(place);
  return fields
    .filter((entry) => ownedAt(entry, path) !== undefined)
    .map(({ manager = "unknown", time }) => (time === undefined ? { manager } : { manager, time }))
    .sort((a, b) => compare(a.manager, b.manager));
}

/**
 * The other writer of a place that keeps being reverted: who holds it besides us. Nobody holds what was deleted;
 * then it is most likely the last one besides us that wrote the node itself and not its status.
 */
export function rivalOf(fields: readonly ManagedFieldsEntry[], id: MarkId): string | undefined {
  const holder = holdersOf(fields, id).find(({ manager }) => manager !== FIELD_MANAGER);
  if (holder !== undefined) return holder.manager;
  return fields
    .filter(({ manager, subresource }) => manager !== FIELD_MANAGER && !subresource)
    .sort((a, b) => compare(a.time, b.time))
    .at(-1)?.manager;
}

/**
 * Of a record that is no longer on the node, what still stands there and is held by us; `undefined` when that is
 * nothing. Taints are held as one list, so that alone would not tell.
 *
 * @param live the node as it is now, `managedFields` included.
 */
export function recordStillHeld(text: string, live: Node): string | undefined {
  const read = parseRecord(text);
  if (read.state !== "read") return undefined;
  const { by, marks } = read.record;
  const fields = live.metadata?.managedFields ?? [];
  const isOurs = (id: MarkId): boolean =>
    standingValue(live, id) !== undefined &&
    holdersOf(fields, id).some(({ manager }) => manager === FIELD_MANAGER);
  return stringifyRecord({ by, marks: new Map([...marks].filter(([id]) => isOurs(id))) });
}

function pathOf(place: MarkPlace): readonly string[] {
  if (place.kind === "taint") return ["f:spec", "f:taints"];
  if (place.kind === "unschedulable") return ["f:spec", "f:unschedulable"];
  return ["f:metadata", place.kind === "label" ? "f:labels" : "f:annotations", `f:${place.key}`];
}

function compare(a = "", b = ""): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
