export { type ArchitectureAnswers, architectureAdmission } from "./admission.ts";
export { traceOfAdmission, wantedFor } from "./admission-trace.ts";
export {
  type ArchitectureAdmission,
  type ArchitectureAnswer,
  type ArchitectureQuestion,
  admitDaemonSet,
  admitPod,
} from "./admit.ts";
export { type BootstrapInput, type BootstrapState, phaseOf, type Uncovered } from "./bootstrap.ts";
export { type BootstrapSources, type Bootstraps, createBootstraps } from "./bootstraps.ts";
export {
  type ArchitectureBinding,
  type ArchitecturePhase,
  architectureFields,
  bindArchitecture,
} from "./capability.ts";
export { type LeftPod, type PodRestarts, planPodRestarts } from "./clean-pods.ts";
export {
  architectureRules,
  type CompileArchitectureInput,
  compileArchitecture,
  taintKeys,
} from "./compile.ts";
export {
  type DaemonSetDecision,
  type DaemonSetView,
  decideDaemonSet,
  TEMPLATE_TOLERATIONS,
} from "./decide-daemonset.ts";
export { decidePod, isUnscheduled, type PodDecision, type PodView, podName } from "./decide-pod.ts";
export { type GovernContext, type GovernedPod, governing, isNarrowable, overrideOf } from "./govern.ts";
export {
  defaultImageRegistries,
  type ImageRegistriesSpec,
  imageRegistriesKind,
  type RegistrySpec,
} from "./image-registries.ts";
export * from "./image-sight.ts";
export { FactConfigMaps, IMAGE_FACTS_FIELD, IMAGE_FACTS_LABEL } from "./images/fact-config-maps.ts";
export { MAX_SHARDS } from "./images/fact-shards.ts";
export { createImageLibrary, type ImageLibrary } from "./images/image-library.ts";
export { type FoundCredentials, PullCredentials } from "./images/pull-credentials.ts";
export { parseAllowed, type RegistrySettings, readMsOf } from "./images/registry-access.ts";
export { imageUses } from "./images.ts";
export {
  type ArchitectureGauges,
  type ArchitectureMetrics,
  createArchitectureMetrics,
  type PodAdmission,
} from "./metrics.ts";
export { architectureOnce } from "./once.ts";
export { standingCondition } from "./pod-condition.ts";
export type { PodReport } from "./pod-reconciler.ts";
export * from "./pod-view.ts";
export {
  ARCHITECTURE,
  type ArchitectureDocument,
  type ArchitecturePolicies,
  type ArchitecturePolicyInForce,
} from "./policy.ts";
export { architectureRuntimeClasses, type RuntimeClassOptions } from "./runtime-class.ts";
export type { ArchitectureJudgement, ArchitectureProgress, FullArchitectureStatus } from "./status.ts";
export {
  ArchitectureNodeTally,
  ArchitectureTally,
  type PodCounts,
  type TaintCounts,
  type TallyChange,
} from "./tally.ts";
export { missingTolerations as missingArchitectureTolerations } from "./tolerations.ts";
export { type JudgeOptions, judge, type RecheckOptions, recheckAfter, wantsOf } from "./verdict.ts";
export { ArchitectureWatches, isKeptPending, slimPodStatus } from "./watches.ts";
export { type WiredArchitecture, wireArchitecture } from "./wiring.ts";
export { WorkloadPass, type WorkloadPassOptions } from "./workload-pass.ts";
