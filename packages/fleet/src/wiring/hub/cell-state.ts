import type { ClusterName } from "@berth/runtime";
import type { Cell } from "../../api/cell.ts";
import { leaseOfCell } from "../../fleet/settings.ts";
import type { CellState } from "../../hub/cells/seen.ts";
import type { Planes } from "./planes.ts";

/** Berth in a cell that has not renewed its Lease for this long is not heard, ms. Time in which this process stands still is not counted. */
export const UNHEARD_MS = 15_000;

/** May the hub conclude from what it does not see in a cell? */
export function cellState({ metadata, spec }: Cell, { cells, views }: Planes): CellState {
  const name = (metadata?.name ?? "") as ClusterName;
  const engaged = cells.get(name);
  const away = (message: string): CellState => ({ is: "away", reason: "CellUnreachable", message });
  if (engaged === undefined) return away("it is not connected");
  if (engaged.reach.is === "no") return away(`${engaged.reach.cause}: ${engaged.reach.message}`);
  if (engaged.identity !== spec?.uid) return away("it is another cluster");
  if (engaged.excess !== undefined) return { is: "away", reason: "CellTooLarge", message: engaged.excess };
  if (engaged.leaseSilentMs() > UNHEARD_MS) {
    const message = `no Berth in it has renewed Lease ${leaseOfCell(name)}`;
    return { is: "away", reason: "CellUnheard", message };
  }
  const { deployments, instances, namespaces } = views.cell;
  const states = [deployments, instances, namespaces].map((it) => it.state(name));
  if (states.includes("absent")) return away("it does not serve the kinds of the fleet");
  return states.every((it) => it === "synced") ? { is: "synced" } : away("its objects are not read yet");
}
