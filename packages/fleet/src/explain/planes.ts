/** Where the deployments of projects are, as the hub and the Cells say it. Pure: no cell is asked. */
import { formatAge } from "@berth/host";
import { findCondition, fromTime } from "@berth/runtime";
import type { Cell, Withdrawal } from "../api/cell.ts";
import { finalizers, annotations as keys } from "../api/keys.ts";
import { type CellPlacement, parsePlacement, type Target } from "../api/placement.ts";
import type { WorkloadDeployment } from "../api/workload.ts";
import { type CellSeen, isFullWith, nameOf, uidOf } from "../hub/cells/seen.ts";
import { ranBefore } from "../hub/mirror/status.ts";
import { type CellVerdict, type Choice, choose } from "../hub/placement/choose.ts";
import { sourceUidOf } from "../hub/source.ts";

/** What commands read beside the project. */
export interface PlaneFacts {
  readonly cells: readonly Cell[];
  /** All of the hub. */
  readonly deployments: readonly WorkloadDeployment[];
  readonly withdrawals: readonly Withdrawal[];
}

/** It is in a project or on a hub, and its Instances run in a cell. */
export function isCarried({ metadata }: WorkloadDeployment): boolean {
  const { annotations = {}, finalizers: listed = [] } = metadata ?? {};
  return (
    listed.includes(finalizers.federator) ||
    annotations[keys.federationNamespace] !== undefined ||
    annotations[keys.placement] !== undefined
  );
}

/** Cells as their statuses tell. @param more replicas that are about to be placed, by the uids of cells. */
export function cellsSeen(
  { cells, deployments }: PlaneFacts,
  more: ReadonlyMap<string, number> = new Map(),
): readonly CellSeen[] {
  const placed = deployments.map((it) => ({ uid: placementIn(it)?.uid, spec: it.spec }));
  return cells.map((cell): CellSeen => {
    const { spec, status } = cell;
    const uid = spec?.uid ?? "";
    const accepting = findCondition(status?.conditions, "Accepting");
    const hasApis = accepting?.reason !== "ApiMissing";
    const sum = placed
      .filter((it) => it.uid === uid)
      .reduce((total, it) => total + (it.spec?.scaleSettings.minReplicas ?? 0), more.get(uid) ?? 0);
    return {
      cell,
      state: stateOf(cell),
      hasApis,
      isAccepting: !hasApis || accepting?.status !== "False",
      assigned: sum,
      isFull: isFullWith(deployments.filter((it) => placementIn(it)?.uid === uid)),
    };
  });
}

/** By the reason of `Reachable`. */
const AWAY: Readonly<Record<string, "CellUnheard" | "CellTooLarge">> = {
  NotRunning: "CellUnheard",
  WrongCellName: "CellUnheard",
  CellTooLarge: "CellTooLarge",
};

function stateOf({ status }: Cell): CellSeen["state"] {
  const reachable = findCondition(status?.conditions, "Reachable");
  if (reachable?.status === "True") return { is: "synced" };
  const reason = AWAY[reachable?.reason ?? ""] ?? "CellUnreachable";
  return { is: "away", reason, message: reachable?.message ?? "no running Berth has looked at it" };
}

/** That of the hub's deployment; where the hub has none, the one that the project recorded. */
export function placementOf(
  deployment: WorkloadDeployment,
  { deployments }: PlaneFacts,
): CellPlacement | undefined {
  const uid = deployment.metadata?.uid;
  return placementIn(deployments.find((it) => sourceUidOf(it) === uid) ?? deployment);
}

export function placementIn({ metadata }: WorkloadDeployment): CellPlacement | undefined {
  return parsePlacement(metadata?.annotations?.[keys.placement]);
}

/** What became of a deployment's placement, or would. */
export interface Placing {
  /** Absent: it is in no cell yet. */
  readonly placement?: CellPlacement;
  /** Why not, or which cells would do equally well. */
  readonly choice?: Choice;
  /** On each cell of the city, in the order of their names. */
  readonly verdicts: readonly CellVerdict[];
}

/** As the hub chooses, with what is known without the cells. */
export function placingOf(
  deployment: WorkloadDeployment,
  planes: PlaneFacts,
  more?: ReadonlyMap<string, number>,
): Placing {
  const placement = placementOf(deployment, planes);
  const sourceUid = deployment.metadata?.uid ?? "";
  const choice = choose({
    city: deployment.spec?.cityCode ?? "",
    sourceUid,
    placement,
    ranBefore: ranBefore(deployment),
    cells: cellsSeen(planes, more),
    found: [],
    withdrawals: planes.withdrawals.filter(({ spec }) => spec?.sourceUid === sourceUid),
  });
  const verdicts = choice.verdicts.toSorted((a, b) => (a.cell < b.cell ? -1 : 1));
  return placement === undefined ? { choice, verdicts } : { placement, verdicts };
}

/** Cells that have the fewest replicas of those that would do. Of several, the uid of the deployment decides. */
export function bestCells(
  { choice }: Placing,
  planes: PlaneFacts,
  more?: ReadonlyMap<string, number>,
): readonly CellSeen[] {
  if (choice?.is !== "placed") return [];
  const fit = new Set(
    choice.verdicts
      .filter(({ reason }) => reason === "MoreLoaded" || reason === "Chosen")
      .map(({ cell }) => cell),
  );
  const candidates = cellsSeen(planes, more).filter((it) => fit.has(nameOf(it)));
  const least = Math.min(...candidates.map(({ assigned }) => assigned));
  return candidates.filter(({ assigned }) => assigned === least);
}

/** One line about the cell of a deployment: what is known of it, and since when nothing is. */
export function cellText(
  { uid, cell: name }: Pick<Target, "uid" | "cell">,
  planes: PlaneFacts,
  nowMs: number,
  here = "it is placed here",
): { readonly state: string; readonly detail: string } {
  const seen = cellsSeen(planes).find((it) => uidOf(it) === uid);
  if (seen === undefined) return { state: "missing", detail: `there is no Cell ${name} with its uid` };
  const { state, cell } = seen;
  if (state.is === "synced") return { state: "heard", detail: here };
  const since = fromTime(cell.status?.since);
  const age = since === undefined ? "" : `for ${formatAge(nowMs - since)}, `;
  return { state: "not heard", detail: `${here}; ${age}${state.reason}: ${state.message}` };
}
