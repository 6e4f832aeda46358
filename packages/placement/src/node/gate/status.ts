/** What a `StartupGate` says about itself: decided as plain data. */
import type { Condition } from "@berth/kube";
import { type DesiredCondition, isSameData, mergeConditions } from "@berth/runtime";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { StartupGateStatus } from "../../api/startup-gate.ts";
import type { StartupGate } from "../../api/startup-gate-resource.ts";
import type { Instant } from "../capability.ts";
import type { StatusDecision } from "../status-reconciler.ts";
import type { GateCounts } from "./tally.ts";

/** Types of the conditions of a StartupGate. */
export const gateConditions = {
  /** The gate is in force. */
  ready: "Ready",
  /** Something puts the taint on nodes when they are created. */
  admission: "Admission",
} as const;

export type FullGateStatus = StartupGateStatus & { readonly conditions?: readonly Condition[] };

/** What puts the taint on new nodes, and whether it does. */
export interface AdmissionState {
  readonly works: boolean;
  readonly reason: Reason;
  readonly message: string;
}

/** What became of one version of a document. */
export interface GateJudgement {
  readonly ready: boolean;
  readonly reason: Reason;
  readonly message: string;
}

export interface GateStatusInput {
  readonly gate: StartupGate;
  /** `undefined` while this version has not been looked at. */
  readonly judgement: GateJudgement | undefined;
  /** `undefined` until every node has been looked at: then what was counted before stays. */
  readonly counts: GateCounts | undefined;
  readonly admission: AdmissionState | undefined;
  readonly now: Instant;
}

export function decideGateStatus(input: GateStatusInput): StatusDecision<FullGateStatus> {
  const { gate, judgement, counts, admission, now } = input;
  if (judgement === undefined) return { status: undefined, news: [] };
  const { status: current = {}, metadata: { generation } = {} } = gate;
  const version = generation === undefined ? {} : { observedGeneration: generation };
  const desired = conditionsOf(judgement, admission, version);
  const next: FullGateStatus = {
    ...current,
    ...(generation !== undefined && { observedGeneration: generation }),
    ...(counts !== undefined && {
      selectedNodes: counts.selected,
      heldNodes: counts.held,
      timedOutNodes: counts.timedOut,
      firstNodes: counts.firstHeld,
    }),
    conditions: mergeConditions(current.conditions, desired, now),
  };
  const news = desired.filter((condition) => isNews(condition, current.conditions));
  return { status: isSameData(current, next) ? undefined : next, news };
}

function conditionsOf(
  judgement: GateJudgement,
  admission: AdmissionState | undefined,
  version: Pick<DesiredCondition, "observedGeneration">,
): DesiredCondition[] {
  const { ready, reason, message } = judgement;
  const conditions: DesiredCondition[] = [
    { ...version, type: gateConditions.ready, status: ready ? "True" : "False", reason, message },
  ];
  if (ready && admission !== undefined) {
    conditions.push({
      ...version,
      type: gateConditions.admission,
      status: admission.works ? "True" : "False",
      reason: admission.reason,
      message: admission.message,
    });
  }
  return conditions;
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
