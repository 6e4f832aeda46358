/** `LabelRule` as the API server serves it: resource, status and kubectl columns. */

import { conditionOf, counted, type Remark, type ServedKind, toRemark } from "@berth/host";
import type { Resource } from "@berth/kube";
import * as z from "zod";
import {
  age,
  column,
  condition,
  count,
  names,
  type Served,
  servedResource,
  statusWith,
  wide,
} from "../api/served.ts";
import { MAX_FIRST_NODES } from "../node/first-names.ts";
import { CONFIRMED_ANNOTATION, type LabelRuleSpec, labelRuleSpec } from "./document.ts";

export type LabelRule = Served<LabelRuleStatus>;

export const labelRules: Resource<LabelRule> = servedResource("labelrules", "LabelRule");

const FIRST = { most: MAX_FIRST_NODES, length: 253 };

const status = statusWith({
  matchedNodes: count("Nodes that match now."),
  labelledNodes: count("Nodes that carry a label recorded as set by the rule."),
  pendingRemovals: count("Nodes whose label waits to be removed."),
  firstNodes: names("The first matching nodes by name; never all of them.", FIRST),
});
export type LabelRuleStatus = z.infer<typeof status>;

export const labelRuleKind: ServedKind<LabelRuleSpec> = {
  kind: "LabelRule",
  whenAway: "keep",
  annotations: [CONFIRMED_ANNOTATION],
  resource: labelRules,
  singular: "labelrule",
  shortNames: ["lr"],
  description:
    "A LabelRule derives labels of nodes from what the nodes are: labels, annotations, node information, capacity, " +
    "conditions and taints. Berth sets its labels on every node that matches, and removes them when a node no longer " +
    "does. It never removes a label that it has not set itself.",
  spec: labelRuleSpec.describe("Which nodes match, and the labels that they get."),
  status,
  shown: { remarks },
  columns: [
    column("Label", "string", ".spec.labels[0].key", "The first label that the rule sets."),
    column("Matched", "integer", ".status.matchedNodes", "Nodes that match now."),
    column("Labelled", "integer", ".status.labelledNodes", "Nodes that carry a label set by the rule."),
    column("Ready", "string", condition("Ready"), "Whether the rule is in force."),
    column("Reason", "string", condition("Ready", "reason"), "Why it is, or is not."),
    wide(column("Pending", "integer", ".status.pendingRemovals", "Nodes whose label waits to be removed.")),
    wide(column("Dry-Run", "boolean", ".spec.dryRun", "The rule is in dry run and changes nothing.")),
    age,
  ],
};

function remarks(rule: LabelRule): readonly Remark[] {
  const { pendingRemovals: pending = 0 } = rule.status ?? {};
  const frozen = conditionOf(rule, "RemovalsFrozen");
  if (frozen !== undefined) return [toRemark(frozen)];
  return pending === 0 ? [] : [{ text: `takes its labels off ${counted(pending, "node")} next` }];
}
