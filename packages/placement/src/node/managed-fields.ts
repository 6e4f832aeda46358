/** Reads the owners of fields from `metadata.managedFields` (FieldsV1). Pure; never throws. */
import type { ManagedFieldsEntry } from "@berth/kube";
import { field } from "./untrusted-json.ts";

/** The Apply entry of this manager for the object itself, not for a subresource. There is at most one. */
export function ownEntry(
  entries: readonly ManagedFieldsEntry[],
  manager: string,
): ManagedFieldsEntry | undefined {
  return entries.find(
    (entry) => entry.manager === manager && entry.operation === "Apply" && !entry.subresource,
  );
}

/** The fields that an entry owns at or below this path (`f:spec`, `f:template`); `undefined` when it owns none. */
export function ownedAt(
  entry: Pick<ManagedFieldsEntry, "fieldsV1"> | undefined,
  place: readonly string[],
): unknown {
  return place.reduce<unknown>(field, entry?.fieldsV1);
}

/** The value of a key field of a list item: `k:{"name":"wait"}` and `name` give `wait`. */
export function itemKey(item: string, key: string): unknown {
  if (!item.startsWith("k:")) return undefined;
  try {
    return field(JSON.parse(item.slice(2)), key);
  } catch {
    return undefined;
  }
}
