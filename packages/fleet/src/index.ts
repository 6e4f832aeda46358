export { askedAboutOthers, MANAGED } from "./admit/protect.ts";
export * from "./api/cell.ts";
export * from "./api/reasons.ts";
export * from "./api/workload.ts";
export type * from "./drivers/driver.ts";
export * from "./explain/explain.ts";
export type { FleetFacts } from "./explain/facts.ts";
export { type FleetLine, formatFleet } from "./explain/fleet-lines.ts";
export * from "./explain/forecast.ts";
export { formatOverview, type WorkloadLine } from "./explain/overview.ts";
export { formatExplanation } from "./explain/show.ts";
export { formatForecast, isChanging } from "./explain/show-forecast.ts";
export * from "./fleet/document.ts";
export * from "./fleet/flags.ts";
export * from "./fleet/globs.ts";
export * from "./fleet/operator.ts";
export { cellHomeRules, type Plane, planeRules } from "./fleet/permissions.ts";
export * from "./fleet/settings.ts";
export { hubKinds } from "./kinds/kinds.ts";
export { addCell, type CellAdded, isSeen, whenCell } from "./once/cell/add.ts";
export { type CandidateFault, nameFaults } from "./once/cell/candidate.ts";
export {
  type DrainPlan,
  drainSeen,
  formatDrainPlan,
  readDrainPlan,
  whenDrained,
} from "./once/cell/drain.ts";
export { type Forgetting, formatForgetting, readForgetting } from "./once/cell/forget.ts";
export { type CellLine, cellLine, formatCells } from "./once/cell/list.ts";
export * from "./once/cell/orphans.ts";
export * from "./once/change.ts";
export * from "./once/clean.ts";
export { readFleetLines } from "./once/fleet.ts";
export * from "./once/overview.ts";
export * from "./once/plan.ts";
export * from "./once/read.ts";
export { buildPod } from "./pods/build.ts";
export { BERTH_KEYS, CONTRACT_KEYS } from "./pods/keys.ts";
export type { HubConnections, ListedProject } from "./wiring/hub/planes.ts";
export * from "./wiring.ts";
