import { reasons } from "../api/reasons.ts";
import { type NodeDecision, type NodeView, nothingWanted } from "../node/capability.ts";
import { type Mark, parseMarkId } from "../node/mark.ts";
import { evaluate, presentFacts, type WantedLabel } from "./evaluate.ts";
import type { LabelRules } from "./rules.ts";

/**
 * Decides which labels the rules want on a node. The input is the facts that Berth did not write. One pass also settles
 * chains of rules.
 */
export function decideLabels(view: NodeView, rules: LabelRules): NodeDecision {
  const evaluation = evaluate(view, rules);
  if (evaluation === undefined) return nothingWanted;
  const { wanted, keep, findings, outcomes } = evaluation;
  const marks = [...wanted.values()].map(toMark);
  marks.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { marks, keep, findings, ...(outcomes.length > 0 && { outcomes }) };
}

function toMark({ rules, claim, value, overwrite }: WantedLabel): Mark {
  return {
    id: rules.id,
    value,
    rule: claim.rule.name,
    reason: reasons.RuleMatched,
    foreign: overwrite ? "overwrite" : "leave",
  };
}

/** For `explain`: the facts of the node that the rules of this mark read. */
export function labelInputs(view: NodeView, rules: LabelRules, mark: Mark): readonly string[] {
  const one = rules.byKey.get(parseMarkId(mark.id)?.key ?? "");
  const wanted = evaluate(view, rules)?.wanted ?? new Map<string, WantedLabel>();
  const cases = one?.claims.flatMap((claim) => (claim.rule.name === mark.rule ? claim.cases : [])) ?? [];
  const refs = cases.flatMap(({ when, value }) => when.reads.concat(value.reads));
  return [...new Set(presentFacts(view, refs, wanted))];
}
