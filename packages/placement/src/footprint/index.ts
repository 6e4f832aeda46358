export {
  type AgentProblem,
  type AgentVerdict,
  agentProblemOn,
  agentProblems,
  type CheckedFootprint,
  checkAgent,
  isAgentChecked,
  type UnservedNode,
} from "./agent/check.ts";
export { ManageProblems, type ManageProblemsOptions } from "./agent/manage-problems.ts";
export { type AgentReconcilerOptions, createAgentReconciler, managedAgents } from "./agent/manager.ts";
export { staysAway, withoutSelector } from "./agent/selector.ts";
export {
  bindFootprints,
  decideFootprints,
  type FootprintBinding,
  type FootprintCapability,
  type FootprintPhase,
  MAX_CLAIMS,
} from "./capability.ts";
export {
  type CompileFootprintsInput,
  compileFootprints,
  declaredFootprintPlaces,
  type FootprintDocuments,
  type FootprintSource,
} from "./compile.ts";
export {
  type CompletedFootprint,
  completeFootprint,
  FOOTPRINT_DOMAIN,
} from "./complete.ts";
export {
  type FootprintJudgement,
  type FootprintProgress,
  isGoodCondition as isGoodFootprintCondition,
  SETTLING_MS,
} from "./conditions.ts";
export * from "./footprint.ts";
export * from "./footprint-sight.ts";
export { claimKey, groupOf, type PodGroup } from "./groups.ts";
export type { NodeLoss } from "./hold/decide.ts";
export { type HeldEntry, HeldOwners, type HeldOwnersOptions } from "./hold/held-owners.ts";
export type { HeldPodsSight, PodsAmong } from "./hold/held-pods.ts";
export { resourceName, resourceOf } from "./hold/held-resource.ts";
export { createHoldReconciler, type HoldReconcilerOptions } from "./hold/reconciler.ts";
export {
  HoldWatches,
  type HoldWatchesOptions,
  type OwnerKey,
  toOwnerText,
} from "./hold/watches.ts";
export { createFootprintMetrics, type FootprintMetrics } from "./metrics.ts";
export { type NeedSight, podNeeds } from "./needs.ts";
export { MAX_OWNERS, OwnerResolver, type OwnerResolverOptions } from "./owners.ts";
export { FootprintPods, type FootprintPodsOptions } from "./pod-watches.ts";
export { originalFootprint, type Preset, presets } from "./presets.ts";
export { createFootprintSight, type FootprintSightOptions, type FootprintWatches } from "./sight.ts";
export { decideFootprintStatus, type FootprintStatusPatch, type FullFootprintStatus } from "./status.ts";
export { type FootprintCounts, FootprintTally, type FootprintTallyOptions } from "./tally.ts";
export { claimId, type NodePast, type NodePasts, type NodeUse, type PodUse, podUses, useOf } from "./use.ts";
export { admitWait, type WaitAdmission, type WaitAnswer, type WaitQuestion } from "./wait/admit.ts";
export { formerWaitManager, formerWaits } from "./wait/former-wait.ts";
export { type WaitWebhookOptions, waitLabels, waitPath, waitWebhook } from "./wait/objects.ts";
export { waitContainer } from "./wait/wait.ts";
