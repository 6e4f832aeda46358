/** The condition Ready: one answer from gates, quota, network and provider. It is derived from conditions only. */
import type { Condition } from "@berth/kube";
import { type DesiredCondition, findCondition } from "@berth/runtime";
import { gates } from "../api/keys.ts";

export interface ReadinessInput {
  /** The conditions as quota and provider have them now. */
  readonly conditions: readonly Condition[];
  /** Of the Instance: what the answers are for. */
  readonly generation: number;
  /** Names of the scheduling gates, in their order. */
  readonly gates: readonly string[];
  /** The condition of a NetworkBinding that failed. */
  readonly networkFailed?: Condition | undefined;
}

/** How much a reason says about what blocks an Instance. Contract 1.4; all others have 0. */
const RANKS: ReadonlyMap<string, number> = new Map([
  ["NetworkFailedToCreate", 7],
  ["ImageUnavailable", 5],
  ["InstanceCrashing", 5],
  ["ConfigurationError", 5],
  ["PendingQuota", 3],
  ["Provisioning", 1],
]);

function rankOf(reason: string): number {
  return RANKS.get(reason) ?? 0;
}

/** Reasons of a failure that a person has to look at. */
export function isFailure(reason: string): boolean {
  return rankOf(reason) >= 5;
}

type Answer = Pick<DesiredCondition, "status" | "reason" | "message">;

/**
 * Ready, and `Programmed` and `Available` as far as quota decides them. A denial sets them to `PendingQuota`, and its
 * end sets them back: the provider may not write them for a long time.
 */
export function readiness(input: ReadinessInput): readonly DesiredCondition[] {
  const quota = findCondition(input.conditions, "QuotaGranted");
  const typed = (type: string, answer: Answer): DesiredCondition => {
    return { type, ...answer, observedGeneration: input.generation };
  };
  // Once the gate is gone, the Instance runs, and a denial takes nothing from it.
  if (quota?.status === "False" && input.gates.includes(gates.quota)) {
    const denied = { status: "False", reason: "PendingQuota", message: quota.message } as const;
    return ["Programmed", "Available", "Ready"].map((type) => typed(type, denied));
  }
  const leftover = input.conditions.filter(
    ({ type, reason }) => (type === "Programmed" || type === "Available") && reason === "PendingQuota",
  );
  const reset = leftover.map(({ type }) => typed(type, WAITS_FOR_PROVIDER));
  const conditions = input.conditions.filter((condition) => !leftover.includes(condition));
  return [...reset, typed("Ready", readyOf({ ...input, conditions }))];
}

const WAITS_FOR_PROVIDER: Answer = {
  status: "Unknown",
  reason: "Pending",
  message: "Waiting for the provider",
};

function readyOf({ conditions, gates, networkFailed }: ReadinessInput): Answer {
  if (gates.length > 0) return networkFailed === undefined ? gated(gates) : failedNetwork(networkFailed);
  const programmed = findCondition(conditions, "Programmed");
  if (programmed?.status !== "True") return blocking(conditions, programmed);
  const available = findCondition(conditions, "Available");
  if (available?.status === "True")
    return { status: "True", reason: "Available", message: "Instance is ready" };
  if (available !== undefined && available.reason !== "Pending") return answerOf(available);
  return { status: "False", reason: "Pending", message: "Instance is not available" };
}

function gated(names: readonly string[]): Answer {
  const unopened = names.includes(gates.referencedData) ? `. ${REFERENCED_DATA}` : "";
  const message = `Scheduling gates present: ${names.join(", ")}${unopened}`;
  return { status: "False", reason: "SchedulingGatesPresent", message };
}

/** Berth gives the gate to no Instance, but the original does, and then nothing opens it. */
export const REFERENCED_DATA =
  "Berth does not act on the gate ReferencedData. Delete an Instance that has it, and Berth makes it anew without the gate";

function failedNetwork({ message }: Condition): Answer {
  return { status: "False", reason: "NetworkFailedToCreate", message };
}

/** The reason with the highest rank. Of equal ones the first type counts, in whatever order they are stored. */
function blocking(conditions: readonly Condition[], programmed: Condition | undefined): Answer {
  const says = programmed && !["Pending", "PendingProgramming"].includes(programmed.reason);
  const start: Ranked = says
    ? { rank: 0, answer: answerOf(programmed) }
    : { rank: -1, answer: { ...NOT_PROGRAMMED, status: "False" } };
  const others = conditions
    .filter(({ type }) => !NOT_COMPETING.has(type))
    .toSorted((a, b) => (a.type < b.type ? -1 : 1));
  return [...others, ...(programmed ? [programmed] : [])].filter(competes).reduce(higher, start).answer;
}

const NOT_PROGRAMMED = { reason: "PendingProgramming", message: "Instance has not been programmed" } as const;
/** `Running` is a leftover: it was the name of `Available`. */
const NOT_COMPETING: ReadonlySet<string> = new Set(["Ready", "QuotaGranted", "Programmed", "Running"]);

interface Ranked {
  readonly rank: number;
  readonly answer: Answer;
}

function higher(best: Ranked, condition: Condition): Ranked {
  const rank = rankOf(condition.reason);
  return rank > best.rank ? { rank, answer: answerOf(condition) } : best;
}

function competes({ status, reason }: Condition): boolean {
  return status !== "True" && reason !== "Pending";
}

function answerOf({ status, reason, message }: Condition): Answer {
  return { status: status === "False" ? "False" : "Unknown", reason, message };
}
