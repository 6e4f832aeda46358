import { collectGauges } from "@berth/host";
import type { DocumentGauges } from "../node/document-gauges.ts";
import type { NodeHost } from "../node/wired.ts";
import type { RuleTally } from "./tally.ts";

export const labelGauges: DocumentGauges = {
  inForce: { name: "berth_label_rules", help: "Label rules in force." },
  problems: {
    name: "berth_label_rule_problems",
    help: "Faults in the label rules as last read, by reason.",
    byReason: true,
  },
};

export function measureRules(
  { metrics, frozen }: Pick<NodeHost, "metrics" | "frozen">,
  tally: Pick<RuleTally, "conflicts">,
): void {
  collectGauges(metrics, [
    [
      "berth_label_conflict_nodes",
      "Nodes on which two rules match and want different values for one label.",
      () => tally.conflicts,
    ],
    [
      "berth_label_frozen_rules",
      "Rules whose removals are frozen because too many nodes would lose labels at once.",
      () => frozen().length,
    ],
  ]);
}
