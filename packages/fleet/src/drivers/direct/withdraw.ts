/** Decides about one Withdrawal, and about deployments in cells that no hub object stands for. Pure. */
import type { Withdrawal } from "../../api/cell.ts";
import { annotations as keys } from "../../api/keys.ts";
import { parsePlacement, targetsOf } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { type CellSeen, type Found, isForgotten, uidOf } from "../../hub/cells/seen.ts";
import { isWithdrawnBy } from "../../hub/placement/choose.ts";
import { isDeleting, type Source, sourceUidOf } from "../../hub/source.ts";

export interface WithdrawalView {
  readonly withdrawal: Withdrawal;
  /** `undefined`: there is no Cell with that uid. */
  readonly cell: CellSeen | undefined;
  /** Deployments of this hub with its namespace and name in that cell. */
  readonly found: readonly Found[];
  /** With that namespace and name on the hub, when the hub is synced. */
  readonly hubDeployment: WorkloadDeployment | undefined;
  /** Whether the project wants the source of the Withdrawal. */
  readonly source: Source;
  /**
   * For how long this process has had a proof, monotonic ms: an uncached read did not find it, with the Lease of the cell
   * renewed since. Absent: there is none, or the cell was away or had it since.
   */
  readonly goneForMs: number | undefined;
}

export type WithdrawalDecision =
  | { readonly do: "wait"; readonly recheckAfterMs?: number }
  | { readonly do: "delete"; readonly found: Found }
  | { readonly do: "prove" }
  /** The Withdrawal goes. */
  | { readonly do: "end"; readonly why: "done" | "forgotten" | "void" };

/** A request that was sent before may arrive until then, ms. */
export const LATE_MS = 120_000;

export function decideWithdrawal(view: WithdrawalView): WithdrawalDecision {
  const { withdrawal, cell, hubDeployment, source, goneForMs } = view;
  const { spec } = withdrawal;
  if (spec === undefined) return { do: "wait" };
  if (cell !== undefined && isForgotten(cell) && cell.state.is !== "synced")
    return { do: "end", why: "forgotten" };
  // It comes from a backup: the deployment was placed there again since.
  const isPlaced =
    hubDeployment !== undefined &&
    sourceUidOf(hubDeployment) === spec.sourceUid &&
    targetsOf(parsePlacement(hubDeployment.metadata?.annotations?.[keys.placement])).some(
      ({ uid, epoch }) => uid === spec.cellUid && (spec.epoch === undefined || epoch <= spec.epoch),
    );
  if (isPlaced && source === "live") return { do: "end", why: "void" };
  if (cell?.state.is !== "synced") return { do: "wait" };
  const found = view.found.find((it) => uidOf(it.cell) === spec.cellUid && isWithdrawnBy(withdrawal, it));
  if (found !== undefined) return isDeleting(found.deployment) ? { do: "wait" } : { do: "delete", found };
  if (goneForMs === undefined) return { do: "prove" };
  if (goneForMs < LATE_MS) return { do: "wait", recheckAfterMs: LATE_MS - goneForMs };
  return { do: "end", why: "done" };
}

export interface StrayView {
  readonly found: Found;
  /** On the hub, with its namespace and name. Only when the hub is synced. */
  readonly hubDeployment: WorkloadDeployment | undefined;
  readonly withdrawals: readonly Withdrawal[];
  /** Of the source that the deployment in the cell names. */
  readonly source: Source;
}

/** `superseded`: its placement is an older one, so it is held. `unknown`: its project is not read. */
export type StrayVerdict = "known" | "orphaned" | "superseded" | "unknown";

/** What a deployment is that this hub made. Only a person can say what one is for that is orphaned or superseded. */
export function strayVerdict({ found, hubDeployment, withdrawals, source }: StrayView): StrayVerdict {
  if (isDeleting(found.deployment) || withdrawals.some((it) => isWithdrawnBy(it, found))) return "known";
  if (hubDeployment !== undefined && sourceUidOf(hubDeployment) === found.origin.sourceUid) {
    const placement = parsePlacement(hubDeployment.metadata?.annotations?.[keys.placement]);
    if (isDeleting(hubDeployment) || placement === undefined) return "known";
    const isTarget = targetsOf(placement).some(
      ({ uid, epoch }) => uid === uidOf(found.cell) && epoch === found.origin.epoch,
    );
    return isTarget || found.origin.epoch > placement.last ? "known" : "superseded";
  }
  if (source === "unknown") return "unknown";
  return source === "gone" ? "orphaned" : "known";
}
