/** Reads what the API server keeps of who owns which fields (`metadata.managedFields`, FieldsV1). Pure and total. */
import type { ManagedFieldsEntry } from "@berth/kube";
import { field } from "./untrusted-json.ts";

/** What this manager has applied to the object itself: there is one entry at most, whatever version it was applied in. */
export function ownEntry(
  entries: readonly ManagedFieldsEntry[],
  manager: string,
): ManagedFieldsEntry | undefined {
  return entries.find(
    (entry) => entry.manager === manager && entry.operation === "Apply" && !entry.subresource,
  );
}

/** Of an entry what is owned below this place, as `f:spec`, `f:template`; `undefined`: nothing, and not the place itself. */
export function ownedAt(
  entry: Pick<ManagedFieldsEntry, "fieldsV1"> | undefined,
  place: readonly string[],
): unknown {
  return place.reduce<unknown>(field, entry?.fieldsV1);
}

/** Of an item of a list the field by which it is told from others: `k:{"name":"wait"}`, `name` → `wait`. */
export function itemKey(item: string, key: string): unknown {
  if (!item.startsWith("k:")) return undefined;
  try {
    return field(JSON.parse(item.slice(2)), key);
  } catch {
    return undefined;
  }
}
