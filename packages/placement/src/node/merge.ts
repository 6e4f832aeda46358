import { type Reason, reasons } from "../api/reasons.ts";
import type { Contribution, Finding, Policy } from "./capability.ts";
import type { Mark, MarkId } from "./mark.ts";
import { markProblem, permits } from "./validate.ts";

/** A mark together with the capability that wants it. */
export interface WantedMark {
  readonly capability: string;
  readonly mark: Mark;
}

/** The combined decisions of all capabilities about one node. */
export interface MergedMarks {
  readonly wanted: ReadonlyMap<MarkId, WantedMark>;
  /** Places that keep their present value: in conflict, invalid, not permitted, or unknown. */
  readonly kept: ReadonlyMap<MarkId, Reason>;
  /** By capability name. */
  readonly policies: ReadonlyMap<string, Policy>;
  /** Why a capability no longer wants one of its marks, if it gives a reason. */
  readonly removals: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
}

/**
 * Combines the contributions in order of capability name, so the result does not depend on the order of the input.
 *
 * Guarantees: reports and skips a mark that the API server would refuse or that its policy may not write. Writes no
 * value when two capabilities want different ones. When two want the same value, the first by name owns the mark.
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
  // An invalid mark or an unreadable rule does not stop another rule that wants the same place.
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
