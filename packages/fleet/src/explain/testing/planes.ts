/** Cells and deployments of a hub, as a command reads them. */
import type { Cell, CellStatus } from "../../api/cell.ts";
import type { CellPlacement } from "../../api/placement.ts";
import type { DeploymentStatus, WorkloadDeployment } from "../../api/workload.ts";
import { aCondition, aDeployment, type DeploymentFields } from "../../deployment/testing/fixtures.ts";
import { aPlacement, onHub } from "../../hub/testing/fixtures.ts";
import type { PlaneFacts } from "../planes.ts";

const AWAY_SINCE = "2026-01-01T00:00:00Z";
const heard = [aCondition("Reachable", "True", "Heard"), aCondition("Accepting", "True", "Accepting")];

export function aCellObject(name: string, city = "DFW", status: CellStatus = { conditions: heard }): Cell {
  const spec = { city, uid: `uid-${name}`, secretRef: { name: `berth-cell-${name}` } };
  return { metadata: { name }, spec, status };
}

/** Not heard since the beginning of the tests' time. */
export function anAwayCell(name: string, reason = "Silent"): Cell {
  const conditions = [aCondition("Reachable", "False", reason, "no answer for 8s"), ...heard.slice(1)];
  return aCellObject(name, "DFW", { conditions, since: AWAY_SINCE });
}

/** In the project, with the marks of the federator. */
export function aCarried(fields: DeploymentFields = {}): WorkloadDeployment {
  const metadata = {
    finalizers: ["compute.datumapis.com/federator"],
    annotations: { "compute.datumapis.com/federation-namespace": "ns-U" },
    ...fields.metadata,
  };
  return aDeployment({ ...fields, metadata });
}

export function inCellOf(
  deployment: WorkloadDeployment,
  placed: CellPlacement = aPlacement(),
): WorkloadDeployment {
  const { uid = "", name = "" } = deployment.metadata ?? {};
  return onHub({ name, source: uid, placed });
}

export function planesOf(parts: Partial<PlaneFacts>): PlaneFacts {
  return { cells: [], deployments: [], withdrawals: [], ...parts };
}

export function statusOf(ready: number, fields: Partial<DeploymentStatus> = {}): DeploymentStatus {
  const counts = { replicas: 2, currentReplicas: 2, updatedReplicas: 2, desiredReplicas: 2 };
  return { ...counts, readyReplicas: ready, observedGeneration: 1, observedSourceGeneration: 1, ...fields };
}

/** As the hub marks it when the cell is silent. */
export const staleStatus: DeploymentStatus = statusOf(2, {
  unheard: 2,
  since: AWAY_SINCE,
  conditions: [aCondition("Stale", "True", "CellUnreachable", "cell a does not answer")],
});
