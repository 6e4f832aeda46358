export { admissionPolicies, gateAdmission, TOLERATE_LABEL } from "./admission.ts";
export { admitDaemonSetRequest, admitNodeRequest } from "./admit.ts";
export { autoscalerHints } from "./autoscaler.ts";
export { bindGates, type GateCapability, type GateLook, gateFields, marksSettled } from "./capability.ts";
export { GateClocks } from "./clocks.ts";
export {
  type CompileInput,
  compileGates,
  contractMarks,
  declaredPlaces,
  enforcedGates,
  gateRules,
} from "./compile.ts";
export { type GateCase, type GatePhase, type GateVerdict, type Idleness, isHeld } from "./decide.ts";
export { type DirectBindingSight, directBindingAdmission, refusingGates } from "./direct-binding.ts";
export {
  GATES,
  type Gate,
  type GateDocument,
  type GateSight,
  type Gates,
  type PodQuery,
  type SignalReading,
} from "./gate.ts";
export { createGateRules, GONE_MS, type TimedGateRules } from "./gone-gates.ts";
export { IdleProbe } from "./idle-probe.ts";
export { createGateMetrics, type GateMetrics } from "./metrics.ts";
export type { GateSources } from "./observe.ts";
export { bindUnseeing, gatesOnce, viewGates } from "./once.ts";
export { needsDaemonSets, podQueries } from "./pod-signal.ts";
export { PodWatches } from "./pod-watches.ts";
export { planRelease, type ReleaseInput, type ReleasePlan } from "./release.ts";
export { isGatedAtCreation } from "./selection.ts";
export { type GateWaits, withWaits } from "./show.ts";
export { type GateState, heldAgainBy, MAX_NOTE, parseState, stateId, stringifyState } from "./state.ts";
export { type GateCounts, type GateRelease, GateTally } from "./tally.ts";
export { missingTolerations, tolerationPatch } from "./tolerate.ts";
export { type GateFlags, startupGate } from "./wiring.ts";
