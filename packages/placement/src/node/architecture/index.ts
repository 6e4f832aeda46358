export {
  type ArchitectureWebhookOptions,
  architectureLabels,
  architecturePaths,
  architectureWebhook,
  SYSTEM_NAMESPACES,
} from "./admission-objects.ts";
export { type BootstrapInput, type BootstrapState, phaseOf, type Uncovered } from "./bootstrap.ts";
export { type ArchitectureBinding, type ArchitecturePhase, bindArchitecture } from "./capability.ts";
export {
  type ArchitectureDocuments,
  type ArchitectureSource,
  type CompileArchitectureInput,
  compileArchitecture,
  declaredArchitecturePlaces,
  taintKeys,
} from "./compile.ts";
export { type GovernContext, type GovernedPod, governing, isNarrowable, overrideOf } from "./govern.ts";
export * from "./image-sight.ts";
export { imageUses } from "./images.ts";
export * from "./pod-view.ts";
export {
  ARCHITECTURE,
  type ArchitectureDocument,
  type ArchitectureFault,
  type ArchitecturePolicies,
  type ArchitecturePolicyInForce,
} from "./policy.ts";
export { missingTolerations as missingArchitectureTolerations } from "./tolerations.ts";
export { type JudgeOptions, judge, wantsOf } from "./verdict.ts";
