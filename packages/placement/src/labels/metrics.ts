import type { MetricsRegistry } from "@berth/runtime";
import { createFaultGauge } from "../node/fault-gauge.ts";
import type { LabelRules } from "./rules.ts";

/** Metrics of the label rules. The node writer has the metrics of changes to nodes. */
export interface LabelMetrics {
  /** Call with each set of rules that comes into force. */
  taken(rules: LabelRules, problems: readonly { readonly reason: string }[]): void;
  /** Registers functions that are called at each scrape. */
  counts(of: { readonly conflicts: () => number; readonly frozen: () => number }): void;
}

export function createLabelMetrics(registry: MetricsRegistry): LabelMetrics {
  const rulesInForce = registry.gauge({
    name: "berth_label_rules",
    help: "Label rules in force.",
  });
  const problemsNow = createFaultGauge(registry, {
    name: "berth_label_rule_problems",
    help: "Faults in the label rules as last read, by reason.",
  });
  return {
    taken(rules, problems) {
      rulesInForce.set(rules.count);
      problemsNow(problems);
    },
    counts({ conflicts, frozen }) {
      registry.gauge({
        name: "berth_label_conflict_nodes",
        help: "Nodes on which two rules match and want different values for one label.",
        collect: (gauge) => gauge.set(conflicts()),
      });
      registry.gauge({
        name: "berth_label_frozen_rules",
        help: "Rules whose removals are frozen because too many nodes would lose labels at once.",
        collect: (gauge) => gauge.set(frozen()),
      });
    },
  };
}
