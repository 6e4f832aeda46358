import { type Reason, reasons } from "../api/reasons.ts";
import type { Contribution, Finding, Policy } from "./capability.ts";
import type { Mark, MarkId } from "./mark.ts";
import { markProblem, permits } from "./validate.ts";

/** A mark together with the capability that wants it. */
export interface WantedMark {
  readonly capability: string;
  readonly mark: Mark;
}

/** What all capabilities want of one node together. */
export interface MergedMarks {
  readonly wanted: ReadonlyMap<MarkId, WantedMark>;
  /** Places where what stands stays: in conflict, invalid, not permitted, or not to be told. */
  readonly kept: ReadonlyMap<MarkId, Reason>;
  /** By name of capability. */
  readonly policies: ReadonlyMap<string, Policy>;
  /** Why a capability no longer wants a mark of its own, where it says so. */
  readonly removals: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
}

/**
 * Puts the contributions together, in order of capability name, so the result does not depend on the order given.
 *
 * Guarantees: a mark that the API server would refuse, or that its policy may not write, is left out and reported;
 * a place wanted with two values is written by nobody; with one value by two, the first by name owns it.
 */
export function mergeContributions(contributions: readonly Contribution[]): MergedMarks {
  const wanted = new Map<MarkId, WantedMark>();
  const kept = new Map<MarkId, Reason>();
  const policies = new Map<string, Policy>();
  const removals = new Map<MarkId, Reason>();
  const refused = new Map<MarkId, Reason>();
  const findings: Finding[] = [];
  const ordered = contributions.toSorted((a, b) => (a.capability < b.capability ? -1 : 1));
  for (const { capability, policy, decision } of ordered) {
    policies.set(capability, policy);
    findings.push(...decision.findings);
    for (const mark of decision.marks) {
      const { id } = mark;
      const refusal = refusalOf(mark, policy);
      const first = wanted.get(id);
      if (refusal !== undefined) {
        refused.set(id, refusal.reason);
        findings.push({ ...refusal, severity: "warning", subject: id });
      } else if (first === undefined) wanted.set(id, { capability, mark });
      else if (first.mark.value !== mark.value) {
        kept.set(id, reasons.MarkConflict);
        findings.push(conflictOf(first, { capability, mark }));
      }
    }
    for (const [id, reason] of decision.removals ?? []) removals.set(id, reason);
  }
  for (const id of kept.keys()) wanted.delete(id);
  // A bad mark, or a rule that cannot be read, says nothing against another rule that wants the same place.
  const keep = (id: MarkId, reason: Reason): void => {
    if (!wanted.has(id) && !kept.has(id)) kept.set(id, reason);
  };
  for (const [id, reason] of refused) keep(id, reason);
  for (const { decision } of ordered) for (const [id, reason] of decision.keep) keep(id, reason);
  return { wanted, kept, policies, removals, findings };
}

function conflictOf(first: WantedMark, { mark, capability }: WantedMark): Finding {
  const message =
    `${first.mark.rule} (${first.capability}) wants ${JSON.stringify(first.mark.value)} and ` +
    `${mark.rule} (${capability}) wants ${JSON.stringify(mark.value)}: neither is written`;
  return { reason: reasons.MarkConflict, severity: "warning", subject: mark.id, message };
}

function refusalOf(mark: Mark, policy: Policy): Pick<Finding, "reason" | "message"> | undefined {
  const problem = markProblem(mark);
  if (problem !== undefined) return { reason: reasons.MarkInvalid, message: `${mark.rule}: ${problem}` };
  if (permits(policy, mark.id)) return undefined;
  const message = `${mark.rule}: the domain is reserved for Kubernetes and the key is not allowed by the policy`;
  return { reason: reasons.ProtectedKey, message };
}
