/** Decides the status of a `StartupGate` as plain data. */
import { type DocumentResult, type StatusParts, toCondition } from "@berth/host";
import type { Condition } from "@berth/kube";
import type { DesiredCondition } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { StartupGateSpec } from "./document.ts";
import type { StartupGate, StartupGateStatus } from "./resource.ts";
import type { GateCounts } from "./tally.ts";

/** Types of the conditions of a StartupGate. */
export const gateConditions = {
  /** The gate is in force. */
  ready: "Ready",
  /** Berth or the API server puts the taint on nodes at their creation. */
  admission: "Admission",
  /** Berth refuses pods that name a held node. Only for gates with `directBinding: Refuse`. */
  directBinding: "DirectBinding",
} as const;

export interface GateStatusInput {
  readonly gate: StartupGate;
  readonly result: DocumentResult;
  /** `undefined` until every node has been observed: the earlier counts then stay. */
  readonly counts: GateCounts | undefined;
  readonly admission: DocumentResult | undefined;
  readonly directBinding: DocumentResult | undefined;
}

export function describeGate(input: GateStatusInput): StatusParts<StartupGateStatus> {
  const { gate, result, counts } = input;
  // Already parsed: a document that does not fit the schema is reported as one with a fault.
  const spec = (gate.spec ?? {}) as Spec;
  const isTried = result.ready && spec.dryRun;
  const isTold = isTried || gate.status?.wouldHoldNodes !== undefined;
  return {
    conditions: conditionsOf(input, spec),
    ended: [
      ...(isTried ? [gateConditions.admission] : []),
      ...(isTried || spec.directBinding !== "Refuse" ? [gateConditions.directBinding] : []),
    ],
    rest: {
      ...gate.status,
      ...(counts !== undefined && {
        selectedNodes: counts.selected,
        heldNodes: counts.held,
        timedOutNodes: counts.timedOut,
        firstNodes: counts.firstHeld,
        ...(isTold && { wouldHoldNodes: counts.wouldHold, wouldReleaseNodes: counts.wouldRelease }),
      }),
    },
    isNews,
  };
}

type Spec = Pick<StartupGateSpec, "directBinding" | "dryRun">;

function conditionsOf(
  { result, admission, directBinding }: GateStatusInput,
  { dryRun, directBinding: wanted }: Spec,
): DesiredCondition[] {
  const isTried = result.ready && dryRun;
  const said = isTried ? { ready: true, reason: reasons.DryRun, message: DRY_RUN } : result;
  const conditions = [toCondition(gateConditions.ready, said)];
  if (!result.ready || dryRun) return conditions;
  if (admission !== undefined) conditions.push(toCondition(gateConditions.admission, admission));
  if (directBinding !== undefined && wanted === "Refuse")
    conditions.push(toCondition(gateConditions.directBinding, directBinding));
  return conditions;
}

const DRY_RUN = "in dry run: it decides, counts and reports, and writes nothing on any node";

/** True for a failure, and for a recovery. False for a gate that works from the start. */
function isNews({ status, reason }: DesiredCondition, present: Condition | undefined): boolean {
  return (status === "False" && reason !== reasons.AdmissionOff) || present?.status === "False";
}
