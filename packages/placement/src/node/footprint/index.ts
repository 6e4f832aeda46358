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
export { originalFootprint, type Preset, presets } from "./presets.ts";
export { type FootprintCounts, FootprintTally } from "./tally.ts";
export { claimId, type NodeUse, type PodUse, podUses, useOf } from "./use.ts";
