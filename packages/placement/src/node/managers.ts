import type { ManagedFieldsEntry, Node } from "@berth/kube";
import { FIELD_MANAGER } from "../api/keys.ts";
import { ownedAt } from "./managed-fields.ts";
import { type MarkId, type MarkPlace, parseMarkId, standingValue } from "./mark.ts";
import { parseRecord, stringifyRecord } from "./record.ts";

/** A field manager that owns a place of a node, by `metadata.managedFields`. */
export interface FieldHolder {
  readonly manager: string;
  readonly time?: string;
}

/** The managers that own this place, in order of name. All taints are one field, so they have the same owners. */
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
 * The other writer of a contested place: an owner of the field other than Berth. A deleted field has no owner. Then it
 * is most likely the last other manager that wrote the node itself, not its status.
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
 * Reduces a lost record to the marks that are still on the node and whose field Berth owns; `undefined` without any.
 * All taints are one field, so its owner alone does not show which taints are from Berth.
 *
 * @param live the node from a live read, with `managedFields`.
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
