import type { BoundCapability, NodeDecision, Policy } from "../capability.ts";
import type { Mark, MarkId } from "../mark.ts";
import { noMarks } from "../mark-set.ts";

/** A mark as a made-up capability would want it. */
export function wish(id: MarkId, value: string, more: Partial<Mark> = {}): Mark {
  return { id, value, rule: "made-up/rule", reason: "RuleMatched", foreign: "overwrite", ...more };
}

/** A policy that has read the source `made-up`, with exactly these differences. */
export function policyOf(more: Partial<Policy> = {}): Policy {
  return {
    sourcesRead: new Set(["made-up"]),
    rules: new Set(["made-up/rule"]),
    declared: noMarks,
    allowedProtected: noMarks,
    exclusive: noMarks,
    ...more,
  };
}

/** A capability that wants the same of every node. */
export function capabilityOf(
  name: string,
  marks: readonly Mark[],
  more: { readonly policy?: Partial<Policy>; readonly decision?: Partial<NodeDecision> } = {},
): BoundCapability {
  const decision: NodeDecision = { marks, keep: new Map(), findings: [], ...more.decision };
  const contribution = { capability: name, policy: policyOf(more.policy), decision };
  return { name, contribute: () => contribution, inputs: () => [] };
}
