import type { NodeRules } from "../node/capability.ts";
import { decideLabels, labelInputs } from "./decide.ts";
import { LABELS, type LabelRules } from "./rules.ts";

/**
 * Derived labels. Watches: Nodes (labels, and the ownership record). Wakes every node when the rules change.
 * Owns: labels named by rules.
 */
export const labels: NodeRules<LabelRules> = {
  name: LABELS,
  decide: decideLabels,
  policy: (rules) => rules.policy,
  inputs: labelInputs,
};
