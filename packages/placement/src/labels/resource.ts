/** `LabelRule` as the API server serves it: resource, status and kubectl columns. */

import { conditions, observedGeneration, type ServedKind } from "@berth/host";
import { type Condition, defineResource, type KubeObject, type ObjectMeta, type Resource } from "@berth/kube";
import * as z from "zod";
import { API_GROUP, API_GROUP_VERSION } from "../api/group.ts";
import { MAX_FIRST_NODES } from "../node/first-names.ts";
import { CONFIRMED_ANNOTATION, type LabelRuleSpec, type LabelRuleStatus, labelRuleSpec } from "./document.ts";

/** A LabelRule on the wire. */
export interface LabelRule extends KubeObject {
  readonly metadata?: ObjectMeta;
  /**
   * The stored spec. The API server has applied the defaults and schema of its CRD, which can come from another release
   * of Berth. Parse it with `labelRuleSpec` before use.
   */
  readonly spec?: unknown;
  readonly status?: LabelRuleStatus & { readonly conditions?: readonly Condition[] };
}

export const labelRules: Resource<LabelRule> = defineResource({
  group: API_GROUP,
  version: API_GROUP_VERSION,
  plural: "labelrules",
  kind: "LabelRule",
  namespaced: false,
});

const count = (what: string): z.ZodType => z.int().min(0).optional().describe(what);

const status: z.ZodType = z
  .strictObject({
    observedGeneration,
    matchedNodes: count("Nodes that match now."),
    labelledNodes: count("Nodes that carry a label recorded as set by the rule."),
    pendingRemovals: count("Nodes whose label waits to be removed."),
    firstNodes: z
      .array(z.string().max(253))
      .max(MAX_FIRST_NODES)
      .optional()
      .describe("The first matching nodes by name; never all of them."),
    conditions,
  })
  .describe("What Berth observed last. Only Berth writes it.");

type Column = ServedKind<LabelRuleSpec>["columns"][number];

/** @param priority 1: only `kubectl get -o wide` shows it. */
function column(
  name: string,
  type: Column["type"],
  jsonPath: string,
  description: string,
  priority?: 1,
): Column {
  return { name, type, jsonPath, ...(priority && { priority }), description };
}

function readyCondition(field: "status" | "reason"): string {
  return `.status.conditions[?(@.type=="Ready")].${field}`;
}

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
  columns: [
    column("Label", "string", ".spec.labels[0].key", "The first label that the rule sets."),
    column("Matched", "integer", ".status.matchedNodes", "Nodes that match now."),
    column("Ready", "string", readyCondition("status"), "Whether the rule is in force."),
    column("Reason", "string", readyCondition("reason"), "Why it is, or is not."),
    column("Labelled", "integer", ".status.labelledNodes", "Nodes that carry a label set by the rule.", 1),
    column("Pending", "integer", ".status.pendingRemovals", "Nodes whose label waits to be removed.", 1),
    column("Dry-Run", "boolean", ".spec.dryRun", "The rule is in dry run and changes nothing.", 1),
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
};
