import { isDeepStrictEqual } from "node:util";
import type { ManagedFieldsEntry, Node } from "@berth/kube";
import { standingMarks } from "../mark.ts";

/** Who wrote which place of one node last, as the server notes it in `managedFields` for updates and merge patches. */
export class FieldLedger {
  readonly #holders = new Map<string, string>();

  /** A write that changes a place makes its writer the holder; one that leaves it as it is does not. */
  note(manager: string, before: Node | undefined, after: Node): void {
    const earlier = placesOf(before);
    const later = placesOf(after);
    for (const place of earlier.keys()) if (!later.has(place)) this.#holders.delete(place);
    for (const [place, value] of later) {
      if (!isDeepStrictEqual(earlier.get(place), value)) this.#holders.set(place, manager);
    }
  }

  get entries(): readonly ManagedFieldsEntry[] {
    const byManager = new Map<string, Record<string, unknown>>();
    for (const [place, manager] of this.#holders) {
      const fields = byManager.get(manager) ?? {};
      byManager.set(manager, fields);
      let at = fields;
      for (const step of JSON.parse(place) as readonly string[]) {
        at[step] ??= {};
        at = at[step] as Record<string, unknown>;
      }
    }
    return [...byManager].map(([manager, fieldsV1]) => ({ manager, operation: "Update", fieldsV1 }));
  }
}

function placesOf(node: Node | undefined): ReadonlyMap<string, unknown> {
  const places = new Map<string, unknown>();
  for (const { id, value } of node === undefined ? [] : standingMarks(node)) {
    const slash = id.indexOf("/");
    const kind = id.slice(0, slash);
    if (kind === "label" || kind === "annotation") {
      places.set(JSON.stringify(["f:metadata", `f:${kind}s`, `f:${id.slice(slash + 1)}`]), value);
    }
  }
  if (node?.spec?.taints !== undefined) places.set(JSON.stringify(["f:spec", "f:taints"]), node.spec.taints);
  if (node?.spec?.unschedulable === true) places.set(JSON.stringify(["f:spec", "f:unschedulable"]), true);
  return places;
}
