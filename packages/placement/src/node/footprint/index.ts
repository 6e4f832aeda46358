export {
  type AgentProblem,
  type AgentVerdict,
  agentProblemOn,
  agentProblems,
  type CheckedFootprint,
  checkAgent,
  type UnservedNode,
} from "./agent-check.ts";
export { type AgentReconcilerOptions, createAgentReconciler, managedAgents } from "./agent-manager.ts";
export {
  bindFootprints,
  decideFootprints,
  type FootprintBinding,
  type FootprintPhase,
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
  IDLE_VALUE,
  withPreset,
} from "./complete.ts";
export * from "./footprint.ts";
export * from "./footprint-sight.ts";
export { claimKey, groupOf, type PodGroup } from "./groups.ts";
export { createFootprintMetrics, type FootprintMetrics } from "./metrics.ts";
export { type NeedSight, podNeeds } from "./needs.ts";
export { MAX_OWNERS, OwnerResolver, type OwnerResolverOptions } from "./owners.ts";
export { FootprintPods, type FootprintPodsOptions } from "./pod-watches.ts";
export { originalFootprint, type Preset, presets } from "./presets.ts";
export { createFootprintSight, type FootprintSightOptions, type FootprintWatches } from "./sight.ts";
export { type FootprintCounts, FootprintTally } from "./tally.ts";
export { claimId, type NodeUse, type PodUse, podUses, useOf } from "./use.ts";
