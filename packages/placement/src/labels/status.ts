/** Decides the status of a `LabelRule`. Pure. */
import type { DocumentResult, StatusParts } from "@berth/host";
import type { Condition } from "@berth/kube";
import { type DesiredCondition, findCondition } from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import type { FrozenRule } from "../node/breaker.ts";
import type { LabelRule, LabelRuleStatus } from "./resource.ts";
import type { RuleCounts } from "./tally.ts";

/** Condition types of a LabelRule. The last two exist only while they are true. */
export const ruleConditions = {
  /** The rule is in force or has `dryRun`, and no other rule wants another value. */
  ready: "Ready",
  /** On some node another rule wants another value. */
  conflicting: "Conflicting",
  /** Too many nodes would lose its labels at once. */
  removalsFrozen: "RemovalsFrozen",
} as const;

export interface StatusInput {
  readonly rule: LabelRule;
  readonly result: DocumentResult;
  /** `undefined` until Berth has decided every node once. The status then keeps the previous counts. */
  readonly counts: RuleCounts | undefined;
  readonly frozen: FrozenRule | undefined;
}

export function describeRule(input: StatusInput): StatusParts<LabelRuleStatus> {
  const { rule, counts } = input;
  const conditions = conditionsOf(input);
  const types = new Set(conditions.map(({ type }) => type));
  const counted = counts === undefined ? [] : [ruleConditions.conflicting, ruleConditions.removalsFrozen];
  return {
    conditions,
    ended: counted.filter((type) => !types.has(type)),
    rest: {
      ...rule.status,
      ...(counts !== undefined && {
        matchedNodes: counts.matched,
        labelledNodes: counts.labelled,
        pendingRemovals: counts.pending,
        firstNodes: counts.firstMatched,
      }),
    },
    isNews,
  };
}

function conditionsOf({ rule, result, counts, frozen }: StatusInput): DesiredCondition[] {
  const { ready, message } = result;
  const hindrance = ready ? hindranceOf(rule, { counts, frozen }) : undefined;
  const conditions: DesiredCondition[] = [
    {
      type: ruleConditions.ready,
      status: ready ? "True" : "False",
      reason: result.reason,
      message,
      ...hindrance,
    },
  ];
  if (counts !== undefined && counts.conflicting > 0) {
    conditions.push({ type: ruleConditions.conflicting, ...conflictOf(counts), status: "True" });
  }
  if (frozen !== undefined) {
    const name = rule.metadata?.name ?? "";
    conditions.push({
      type: ruleConditions.removalsFrozen,
      status: "True",
      reason: reasons.RemovalsFrozen,
      message:
        `${frozen.losing} of ${frozen.carrying} nodes that carry its labels stopped matching at once; ` +
        `none is removed until they match again or \`berth confirm ${name}\` is run`,
    });
  }
  return conditions;
}

type Hindrance = Pick<DesiredCondition, "reason"> & Partial<Pick<DesiredCondition, "status" | "message">>;

const HINDRANCES: ReadonlySet<string> = new Set<Reason>([reasons.RemovalsFrozen, reasons.RuleConflict]);

/**
 * Overrides the condition Ready when a rule in force does not do all its work, because kubectl shows only Ready. In a
 * conflict some nodes lack the label, so the rule is not ready. Without counts the previous reason stays.
 */
function hindranceOf(
  { status }: LabelRule,
  { counts, frozen }: Pick<StatusInput, "counts" | "frozen">,
): Hindrance | undefined {
  if (counts === undefined) {
    const ready = findCondition(status?.conditions, ruleConditions.ready);
    if (ready === undefined || !HINDRANCES.has(ready.reason)) return undefined;
    const { reason, message } = ready;
    return { ...(reason === reasons.RuleConflict && { status: "False" }), reason, message };
  }
  if (counts.conflicting > 0) return conflictOf(counts);
  return frozen && { reason: reasons.RemovalsFrozen };
}

function conflictOf(counts: RuleCounts): Required<Hindrance> {
  const other = counts.conflictsWith ?? "another rule";
  const message = `${other} wants another value on ${naming(counts)}; Berth does not change it there`;
  return { status: "False", reason: reasons.RuleConflict, message };
}

function naming({ conflicting, firstConflicting }: RuleCounts): string {
  const more = conflicting - firstConflicting.length;
  const nodes = conflicting === 1 ? "1 node" : `${conflicting} nodes`;
  return `${nodes} (${firstConflicting.join(", ")}${more > 0 ? ` and ${more} more` : ""})`;
}

/** True for changes to report: the rule stops or starts being in force, or a person must act. */
function isNews({ type, status, reason }: DesiredCondition, present: Condition | undefined): boolean {
  if (type !== ruleConditions.ready || reason === reasons.RulesOverlap) return true;
  // The condition `Conflicting` already reports the conflict.
  if (reason === reasons.RuleConflict) return false;
  return status === "False" || present?.status === "False";
}
