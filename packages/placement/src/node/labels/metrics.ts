import type { MetricsRegistry } from "@berth/runtime";
import type { Reason } from "../../api/reasons.ts";
import type { RuleProblem } from "./checks.ts";
import type { LabelRules } from "./rules.ts";

/** What the label rules report about themselves; what they do to nodes is counted by the node writer. */
export interface LabelMetrics {
  /** Call with each set of rules that comes into force. */
  taken(rules: LabelRules, problems: readonly RuleProblem[]): void;
}

export function createLabelMetrics(registry: MetricsRegistry): LabelMetrics {
  const rulesInForce = registry.gauge({
    name: "berth_label_rules",
    help: "Label rules in force.",
  });
  const problemsNow = registry.gauge({
    name: "berth_label_rule_problems",
    help: "Faults in the label rules as last read, by reason.",
    labels: ["reason"],
  });
  /** Also those without a problem now: their value has to go back to 0. */
  const reported = new Set<Reason>();
  return {
    taken(rules, problems) {
      rulesInForce.set(rules.count);
      const counts = new Map<Reason, number>([...reported].map((reason) => [reason, 0]));
      for (const { reason } of problems) counts.set(reason, (counts.get(reason) ?? 0) + 1);
      for (const [reason, count] of counts) {
        reported.add(reason);
        problemsNow.set(count, { reason });
      }
    },
  };
}
