export { waitContainer } from "../api/wait-container.ts";
export * from "./agent/check.ts";
export * from "./agent/manage-problems.ts";
export { staysAway, withoutSelector } from "./agent/selector.ts";
export * from "./capability.ts";
export { type CompileFootprintsInput, compileFootprints, footprintRules } from "./compile.ts";
export { completeFootprint } from "./complete.ts";
export {
  type FootprintJudgement,
  type FootprintProgress,
  isGoodCondition as isGoodFootprintCondition,
  SETTLING_MS,
} from "./conditions.ts";
export * from "./footprint.ts";
export * from "./footprint-sight.ts";
export { claimKey, groupOf } from "./groups.ts";
export type { NodeLoss } from "./hold/decide.ts";
export * from "./hold/held-owners.ts";
export { resourceName, resourceOf } from "./hold/held-resource.ts";
export * from "./hold/watches.ts";
export { createFootprintMetrics } from "./metrics.ts";
export { type NeedSight, podNeeds } from "./needs.ts";
export { footprintOnce } from "./once.ts";
export { FootprintPods } from "./pod-watches.ts";
export * from "./presets.ts";
export * from "./sight.ts";
export { decideFootprintStatus, type FootprintStatusPatch } from "./status.ts";
export { type FootprintCounts, FootprintTally } from "./tally.ts";
export { type PodUse, podUses } from "./use.ts";
export { type WaitAnswers, waitAdmission } from "./wait/admission.ts";
export { admitWait } from "./wait/admit.ts";
export { formerWaitManager, formerWaits } from "./wait/former-wait.ts";
export { type WiredFootprints, wireFootprints } from "./wiring.ts";
