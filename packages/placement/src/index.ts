export * from "./api/architecture-policy.ts";
export * from "./api/architecture-policy-resource.ts";
export * from "./api/crd.ts";
export { duration, durationMs } from "./api/duration.ts";
export * from "./api/group.ts";
export * from "./api/keys.ts";
export * from "./api/label-rule.ts";
export * from "./api/label-rule-resource.ts";
export * from "./api/node-footprint.ts";
export * from "./api/node-footprint-resource.ts";
export * from "./api/reasons.ts";
export * from "./api/startup-gate.ts";
export * from "./api/startup-gate-resource.ts";
export * from "./explain/architecture-forecast.ts";
export * from "./explain/diff.ts";
export * from "./explain/footprint-forecast.ts";
export type { Requests } from "./explain/footprint-forecast-requests.ts";
export type { SelectorForecast } from "./explain/footprint-forecast-selector.ts";
export * from "./explain/footprint-workloads.ts";
export * from "./explain/gate-forecast.ts";
export * from "./explain/gates.ts";
export * from "./explain/node.ts";
export * from "./explain/pod.ts";
export * from "./explain/removals.ts";
export type { AdmissionQuestion } from "./node/admission-question.ts";
export * from "./node/architecture/index.ts";
export {
  BREAKER_WINDOW_MS,
  type FrozenRule,
  isFreshlyConfirmed,
  RemovalBreakers,
  removalLimit,
} from "./node/breaker.ts";
export * from "./node/capability.ts";
export { type CleanInput, planClean } from "./node/clean.ts";
export { DaemonSetWatch, type DaemonSetWatchOptions } from "./node/daemonset-watch.ts";
export { DeclaredPlaces, type PlaceStore } from "./node/declared-places.ts";
export { FirstPass, type FirstPassOptions } from "./node/first-pass.ts";
export * from "./node/footprint/index.ts";
export * from "./node/gate/index.ts";
export { daemonSetQuery } from "./node/gate/pod-signal.ts";
export { tolerationsAnnotation, withoutTolerations } from "./node/given-tolerations.ts";
export { InformerSet, type InformerSetOptions, pick, type WantedInformer } from "./node/informer-set.ts";
export * from "./node/labels/index.ts";
export type { FieldHolder } from "./node/managers.ts";
export * from "./node/mark.ts";
export { holdsMark, type MarkSet } from "./node/mark-set.ts";
export { type MergedMarks, mergeContributions, type WantedMark } from "./node/merge.ts";
export { NamespaceWatch, type NamespaceWatchOptions } from "./node/namespace-watch.ts";
export { buildPatch, type NodePatch } from "./node/patch.ts";
export {
  type Change,
  effectiveRecord,
  type NodePlan,
  type PlanInput,
  planNode,
  type StayingMark,
} from "./node/plan.ts";
export { slimPodMetadata, slimPodSpec } from "./node/pod-fields.ts";
export { nodeMarksChanged } from "./node/predicate.ts";
export {
  type MarkRecord,
  ownedMarks,
  parseRecord,
  type ReadRecord,
  type RecordedMark,
  recordOf,
} from "./node/record.ts";
export { policyOf as removalPolicyOf } from "./node/removals.ts";
export type { EventSink } from "./node/report.ts";
export type { Unsettled } from "./node/sources.ts";
export { isProtectedKey, labelKeyProblem, labelValueProblem } from "./node/validate.ts";
export {
  type NodeApi,
  type NodeObserver,
  type NodeOutcome,
  NodeWriter,
  type NodeWriterOptions,
} from "./node/writer.ts";
export * from "./worker-pool/index.ts";
