/**
 * Under which name Berth runs in a cell that is not heard: a Lease of another cell that is renewed there says it. Its keys
 * are Cells, each in its own cluster.
 */
import { type Lease, leases } from "@berth/kube";
import type { ObjectKey, Reconcile } from "@berth/runtime";
import { cellOfLease } from "../../fleet/settings.ts";
import { nameOf } from "../../hub/cells/seen.ts";
import type { HubAsk } from "./ask.ts";
import type { HubParts } from "./parts.ts";

/** Between two looks, ms: longer than a Lease in use stays as it is. */
const LOOK_MS = 5_000;

/** Two looks at the same Lease tell one in use from one that was left behind, whatever clocks say. */
export function namesInCells(parts: HubParts, ask: Pick<HubAsk, "end">): Reconcile<ObjectKey> {
  const { planes, know, home } = parts;
  /** By the uid of the cell: the versions of its Leases. */
  const seen = new Map<string, ReadonlyMap<string, string>>();
  return async ({ cluster }, { signal }) => {
    const cell = know.cellOf(cluster);
    const engaged = planes.cells.get(cluster);
    const uid = cell?.cell.spec?.uid ?? "";
    const isUnheard = cell?.state.is === "away" && cell.state.reason === "CellUnheard";
    if (engaged === undefined || !isUnheard) {
      seen.delete(uid);
      know.runsAs(uid, undefined);
      return undefined;
    }
    const { items } = await engaged.client.list(leases, {
      namespace: cell.cell.spec?.namespace ?? home,
      signal,
    });
    const name = renewed(items, seen.get(uid) ?? new Map(), nameOf(cell));
    seen.set(uid, new Map(items.map((it) => [it.metadata?.name ?? "", it.metadata?.resourceVersion ?? ""])));
    if (know.runsAs(uid, name)) ask.end(cluster);
    return { recheckAfterMs: LOOK_MS };
  };
}

/** The name of another cell, whose Lease has changed. */
function renewed(
  items: readonly Lease[],
  before: ReadonlyMap<string, string>,
  own: string,
): string | undefined {
  for (const { metadata } of items) {
    const name = cellOfLease(metadata?.name ?? "");
    const version = before.get(metadata?.name ?? "");
    if (name !== undefined && name !== own && version !== undefined && version !== metadata?.resourceVersion)
      return name;
  }
  return undefined;
}
