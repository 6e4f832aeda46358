/** How far the drain of a cell is. Pure. */
import { counted } from "@berth/host";
import { type DesiredCondition, findCondition } from "@berth/runtime";
import { annotations as keys } from "../../api/keys.ts";
import { parsePlacement } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";

export interface DrainView {
  /** The uid of the cell. */
  readonly uid: string;
  /** Deployments of the hub whose placement names the cell. */
  readonly placed: readonly WorkloadDeployment[];
  /** Withdrawals of what the cell was last seen with. */
  readonly withdrawn: number;
  /** The cell was last seen with this deployment. */
  readonly isThere: (deployment: WorkloadDeployment) => boolean;
}

/** The condition `Drained` of a Cell. What has left is not counted, though Berth may still wait for requests that come late. */
export function drainedCondition({ uid, placed, withdrawn, isThere }: DrainView): DesiredCondition {
  let [moving, leaving, queued] = [0, withdrawn, 0];
  const waits = new Map<string, number>();
  for (const deployment of placed) {
    const { metadata, status } = deployment;
    const placement = parsePlacement(metadata?.annotations?.[keys.placement]);
    const { reason } = findCondition(status?.conditions, "Moving") ?? {};
    if (placement?.uid !== uid) leaving += isThere(deployment) ? 1 : 0;
    else if (reason !== undefined) waits.set(reason, (waits.get(reason) ?? 0) + 1);
    else if (placement.next !== undefined) moving += 1;
    else queued += 1;
  }
  const left = moving + leaving + queued + [...waits.values()].reduce((sum, count) => sum + count, 0);
  if (left === 0)
    return { type: "Drained", status: "True", reason: "Drained", message: "no deployment is in it" };
  const parts = [
    ...(moving > 0 ? [`${moving} becoming ready in another cell`] : []),
    ...(leaving > 0 ? [`${leaving} leaving`] : []),
    ...(queued > 0 ? [`${queued} waiting for others`] : []),
    ...[...waits]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([reason, count]) => `${count} cannot leave (${reason})`),
  ];
  const message = `${counted(left, "deployment")} left: ${parts.join(", ")}`;
  return { type: "Drained", status: "False", reason: waits.size > 0 ? "Waiting" : "Draining", message };
}
