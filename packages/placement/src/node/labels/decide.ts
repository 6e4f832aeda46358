import { type NodeDecision, type NodeView, nothingWanted } from "../capability.ts";
import { labelId, type Mark, type MarkId, ownValue, parseMarkId } from "../mark.ts";
import { observeInputs } from "./observe.ts";
import type { CompiledRule, LabelRules } from "./rules.ts";

/**
 * Which labels the rules want on a node: everything that can be derived from labels that are not our own work, in
 * one pass, chains of rules included.
 *
 * A label on a cycle of rules that stands without us is left to whoever set it, unless something outside the cycle
 * asks for it: were it taken over, it would no longer count as evidence and would be removed in the next pass.
 */
export function decideLabels(view: NodeView, rules: LabelRules): NodeDecision {
  const inputs = observeInputs(view, rules);
  if (inputs === undefined && rules.frozen.size === 0) return nothingWanted;
  const given = inputs ?? [];
  const derived = derive(given, rules);
  const marks: Mark[] = [];
  let supported: ReadonlyMap<string, CompiledRule> | undefined;
  for (const [key, compiled] of derived) {
    if (compiled.circular && given.includes(key)) {
      supported ??= derive(outsideCycles(given, rules), rules);
      if (!supported.has(key)) continue;
    }
    marks.push(compiled.mark);
  }
  marks.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { marks, keep: rules.frozen.size === 0 ? [] : unknowable(given, derived, rules), findings: [] };
}

/** The least fixed point: rules reached from these labels, through the labels they set. */
export function derive(from: readonly string[], rules: LabelRules): ReadonlyMap<string, CompiledRule> {
  const derived = new Map<string, CompiledRule>();
  const left = [...from];
  for (let key = left.pop(); key !== undefined; key = left.pop()) {
    for (const compiled of rules.byInput.get(key) ?? []) {
      if (derived.has(compiled.rule.key)) continue;
      derived.set(compiled.rule.key, compiled);
      left.push(compiled.rule.key);
    }
  }
  return derived;
}

function outsideCycles(given: readonly string[], rules: LabelRules): readonly string[] {
  return given.filter((key) => rules.byKey.get(key)?.circular !== true);
}

/** Labels whose rule cannot be read, and those that would follow if such a label were wanted. */
function unknowable(
  given: readonly string[],
  derived: ReadonlyMap<string, CompiledRule>,
  rules: LabelRules,
): readonly MarkId[] {
  const possible = derive([...given, ...rules.frozen], rules);
  const keys = [...rules.frozen, ...[...possible.keys()].filter((key) => !derived.has(key))];
  return keys.map(labelId).sort();
}

/** For `explain`: the labels of the node that lead to this mark, as mark ids. */
export function labelInputs(view: NodeView, rules: LabelRules, mark: Mark): readonly string[] {
  const compiled = rules.byKey.get(parseMarkId(mark.id)?.key ?? "");
  if (compiled === undefined) return [];
  const derived = derive(observeInputs(view, rules) ?? [], rules);
  return [...compiled.rule.anyOf.keys()]
    .filter((key) => ownValue(view.node.metadata?.labels, key) !== undefined || derived.has(key))
    .map(labelId);
}
