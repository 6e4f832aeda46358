export { originalFootprint } from "./api/agent-substrate.ts";
export * from "./api/group.ts";
export * from "./api/keys.ts";
export * from "./api/reasons.ts";
export * from "./api/served.ts";
export * from "./architecture/document.ts";
export * from "./architecture/explain.ts";
export * from "./architecture/forecast.ts";
export * from "./architecture/index.ts";
export * from "./architecture/resource.ts";
export * from "./deschedule/index.ts";
export * from "./footprint/document.ts";
export * from "./footprint/forecast/forecast.ts";
export * from "./footprint/index.ts";
export * from "./footprint/resource.ts";
export * from "./labels/document.ts";
export * from "./labels/index.ts";
export * from "./labels/resource.ts";
export type { AdmissionQuestion } from "./node/admission-question.ts";
export {
  BREAKER_WINDOW_MS,
  type FrozenRule,
  isFreshlyConfirmed,
  RemovalBreakers,
  removalLimit,
} from "./node/breaker.ts";
export * from "./node/capability.ts";
export { selectorCel } from "./node/cel.ts";
export type { Change } from "./node/change.ts";
export { type CleanInput, planClean, type Unrecorded } from "./node/clean.ts";
export * from "./node/clean-once.ts";
export { DeclaredPlaces, type PlaceStore } from "./node/declared-places.ts";
export { documentCapability } from "./node/document-capability.ts";
export * from "./node/explain/diff.ts";
export * from "./node/explain/node.ts";
export * from "./node/explain/removals.ts";
export * from "./node/explain/rule-trace.ts";
export { type Comparison, firstFailed, Trace } from "./node/explain/trace.ts";
export { tolerationsAnnotation, withoutTolerations } from "./node/given-tolerations.ts";
export { NodeLog } from "./node/log.ts";
export type { FieldHolder } from "./node/managers.ts";
export * from "./node/mark.ts";
export { holdsMark, type MarkSet } from "./node/mark-set.ts";
export { type MergedMarks, mergeContributions, type WantedMark } from "./node/merge.ts";
export { type NodeObserver, type NodeOutcome, tellAll } from "./node/observer.ts";
export * from "./node/once.ts";
export * from "./node/once-capability.ts";
export { buildPatch, type NodePatch } from "./node/patch.ts";
export * from "./node/place-config-map.ts";
export { placementCheck } from "./node/placement-check.ts";
export { effectiveRecord, type NodePlan, type PlanInput, planNode, type StayingMark } from "./node/plan.ts";
export { explainedPods, slimPodMetadata, slimPodSpec } from "./node/pod-fields.ts";
export { nodeOf, nodesOfChange } from "./node/pod-nodes.ts";
export { nodeMarksChanged } from "./node/predicate.ts";
export {
  hasClusterMarks,
  type MarkRecord,
  ownedMarks,
  parseRecord,
  type ReadRecord,
  type RecordedMark,
  recordOf,
} from "./node/record.ts";
export { policyOf as removalPolicyOf } from "./node/removals.ts";
export type { EventSink } from "./node/report.ts";
export { policySources, refusedRules } from "./node/sources.ts";
export { tolerationText } from "./node/tolerations.ts";
export { isProtectedKey, labelKeyProblem, labelValueProblem } from "./node/validate.ts";
export type { NodeCapability, NodeHost, Wired, WiredFacts } from "./node/wired.ts";
export {
  type NodeApi,
  NodeWriter,
  type NodeWriterOptions,
} from "./node/writer.ts";
export * from "./startup-gate/document.ts";
export * from "./startup-gate/explain.ts";
export * from "./startup-gate/forecast.ts";
export * from "./startup-gate/index.ts";
export { daemonSetQuery } from "./startup-gate/pod-signal.ts";
export * from "./startup-gate/resource.ts";
export * from "./worker-pool/index.ts";
