import type { NodeView } from "../capability.ts";
import { labelId } from "../mark.ts";
import type { LabelRules } from "./rules.ts";

/** The name under which label rules record their marks. */
export const LABELS = "labels";

/**
 * The labels of the node that rules look at and that are not our own work: what everything is derived from. A label
 * that we set is evidence of nothing. One that cannot be told at present (its rule is unreadable) counts while it
 * stands, whoever set it.
 *
 * @returns `undefined` when there is none, which is so for most nodes: no allocation then.
 */
export function observeInputs(view: NodeView, rules: LabelRules): readonly string[] | undefined {
  const labels = view.node.metadata?.labels;
  if (labels === undefined) return undefined;
  let inputs: string[] | undefined;
  for (const key in labels) {
    if (!Object.hasOwn(labels, key) || !rules.byInput.has(key) || isDerived(view, rules, key)) continue;
    inputs ??= [];
    inputs.push(key);
  }
  return inputs;
}

function isDerived(view: NodeView, rules: LabelRules, key: string): boolean {
  if (view.owned.size === 0 || rules.frozen.has(key)) return false;
  return view.owned.get(labelId(key))?.capability === LABELS;
}
