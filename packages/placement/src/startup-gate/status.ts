/** What a `StartupGate` says about itself: decided as plain data. */
import type { DocumentResult, StatusDecision } from "@berth/host";
import type { Condition } from "@berth/kube";
import { type DesiredCondition, isSameData, mergeConditions, withoutConditions } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import type { StartupGateSpec, StartupGateStatus } from "./document.ts";
import type { StartupGate } from "./resource.ts";
import type { GateCounts } from "./tally.ts";

/** Types of the conditions of a StartupGate. */
export const gateConditions = {
  /** The gate is in force. */
  ready: "Ready",
  /** Something puts the taint on nodes when they are created. */
  admission: "Admission",
  /** Pods that name a held node are refused. Only of gates with `directBinding: Refuse`. */
  directBinding: "DirectBinding",
} as const;

export type FullGateStatus = StartupGateStatus & { readonly conditions?: readonly Condition[] };

/** What became of one version of a document, or whether what it asks of admission works. */
export type GateJudgement = DocumentResult;

export interface GateStatusInput {
  readonly gate: StartupGate;
  /** `undefined` while this version has not been looked at. */
  readonly judgement: GateJudgement | undefined;
  /** `undefined` until every node has been looked at: then what was counted before stays. */
  readonly counts: GateCounts | undefined;
  readonly admission: GateJudgement | undefined;
  readonly directBinding: GateJudgement | undefined;
  readonly now: Instant;
}

export function decideGateStatus(input: GateStatusInput): StatusDecision<FullGateStatus> {
  const { gate, judgement, counts, now } = input;
  if (judgement === undefined) return { status: undefined, news: [] };
  const { status: current = {}, metadata: { generation } = {} } = gate;
  const version = generation === undefined ? {} : { observedGeneration: generation };
  // Parsed already: a document that does not fit the schema is judged as one with a fault.
  const spec = (gate.spec ?? {}) as Pick<StartupGateSpec, "directBinding" | "dryRun">;
  const isTried = judgement.ready && spec.dryRun;
  const desired = conditionsOf(input, judgement, { spec, version });
  const unfit = [
    ...(isTried ? [gateConditions.admission] : []),
    ...(isTried || spec.directBinding !== "Refuse" ? [gateConditions.directBinding] : []),
  ];
  const isTold = isTried || current.wouldHoldNodes !== undefined;
  const next: FullGateStatus = {
    ...current,
    ...(generation !== undefined && { observedGeneration: generation }),
    ...(counts !== undefined && {
      selectedNodes: counts.selected,
      heldNodes: counts.held,
      timedOutNodes: counts.timedOut,
      firstNodes: counts.firstHeld,
      ...(isTold && { wouldHoldNodes: counts.wouldHold, wouldReleaseNodes: counts.wouldRelease }),
    }),
    conditions: withoutConditions(mergeConditions(current.conditions, desired, now), unfit),
  };
  const news = desired.filter((condition) => isNews(condition, current.conditions));
  return { status: isSameData(current, next) ? undefined : next, news };
}

function conditionsOf(
  { admission, directBinding }: GateStatusInput,
  { ready, reason, message }: GateJudgement,
  { spec, version }: Spoken,
): DesiredCondition[] {
  const toStatus = (is: boolean): "True" | "False" => (is ? "True" : "False");
  const said = ready && spec.dryRun ? { reason: reasons.DryRun, message: DRY_RUN } : { reason, message };
  const conditions: DesiredCondition[] = [
    { ...version, type: gateConditions.ready, status: toStatus(ready), ...said },
  ];
  if (!ready || spec.dryRun) return conditions;
  if (admission !== undefined) {
    const { ready, ...why } = admission;
    conditions.push({ ...version, type: gateConditions.admission, status: toStatus(ready), ...why });
  }
  if (directBinding !== undefined && spec.directBinding === "Refuse") {
    const { ready: works, ...why } = directBinding;
    conditions.push({ ...version, type: gateConditions.directBinding, status: toStatus(works), ...why });
  }
  return conditions;
}

const DRY_RUN = "in dry run: it decides, counts and reports, and writes nothing on any node";

interface Spoken {
  readonly spec: Pick<StartupGateSpec, "directBinding" | "dryRun">;
  readonly version: Pick<DesiredCondition, "observedGeneration">;
}

/** Something stopped working, or works again. That a gate works from the start is no news. */
function isNews(
  { type, status, reason }: DesiredCondition,
  before: readonly Condition[] | undefined,
): boolean {
  const present = before?.find((condition) => condition.type === type);
  if (present?.status === status && present.reason === reason) return false;
  return (status === "False" && reason !== reasons.AdmissionOff) || present?.status === "False";
}
