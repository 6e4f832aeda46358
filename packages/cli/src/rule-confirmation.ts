/** What `berth plan` says of rules that wait, or remove labels later. */
import { type ClusterDocuments, ruleName } from "@berth/host";
import {
  confirmedAt,
  isFreshlyConfirmed,
  type LabelRuleDocument,
  type LabelRuleSpec,
  labelRuleKind,
  type RuleForecast,
} from "@berth/placement";
import type { RuleFiles } from "./session.ts";

/** Documents of files and of the cluster by rule name, `config/x` and `cluster/x`. */
export function rulesByName(
  { settings }: RuleFiles,
  cluster: ClusterDocuments<LabelRuleSpec> | undefined,
): ReadonlyMap<string, LabelRuleDocument> {
  return new Map([
    ...settings.documentsOf(labelRuleKind).map((rule) => [ruleName("config", rule.name), rule] as const),
    ...(cluster?.documents ?? []).map((rule) => [ruleName("cluster", rule.name), rule] as const),
  ]);
}

/** One sentence for each rule that `run` would not carry out at once, of so many nodes. */
export function ruleNotes(
  forecasts: readonly RuleForecast[],
  rules: ReadonlyMap<string, LabelRuleDocument>,
  { nodes, now }: { readonly nodes: number; readonly now: number },
): readonly string[] {
  return forecasts.flatMap(({ rule, touched, losing, carrying, delayMs, frozen }): readonly string[] => {
    const document = rules.get(rule);
    if (document === undefined) return [];
    const { spec, name } = document;
    const at = confirmedAt(document);
    const { confirmAbovePercent: percent } = spec;
    if (percent !== undefined && at === undefined && touched * 100 > percent * nodes) {
      return [
        `${rule} changes ${touched} of ${nodes} nodes, more than ${percent} %: if it is new or edited it waits for \`berth confirm ${name}\`.`,
      ];
    }
    if (frozen && !isFreshlyConfirmed(at, now)) {
      return [
        `${rule}: ${losing} of ${carrying} nodes would lose its labels at once, too many: none is removed until \`berth confirm ${name}\`.`,
      ];
    }
    return losing > 0 && delayMs > 0
      ? [`${rule}: its labels are removed from ${losing} of ${carrying} nodes after ${delayMs / 1000} s.`]
      : [];
  });
}
