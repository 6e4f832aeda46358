/** `ArchitecturePolicy` as the API server serves it: resource, status and how kubectl shows it. */

import { conditions, observedGeneration, type ServedKind } from "@berth/host";
import { type Condition, defineResource, type KubeObject, type ObjectMeta, type Resource } from "@berth/kube";
import * as z from "zod";
import { API_GROUP, API_GROUP_VERSION } from "../api/group.ts";
import {
  type ArchitecturePolicySpec,
  type ArchitecturePolicyStatus,
  architecturePolicySpec,
  BOOTSTRAP_ANNOTATION,
} from "./document.ts";

/** An ArchitecturePolicy on the wire. */
export interface ArchitecturePolicy extends KubeObject {
  readonly metadata?: ObjectMeta;
  /** As stored: parse it with `architecturePolicySpec` before use. */
  readonly spec?: unknown;
  readonly status?: ArchitecturePolicyStatus & { readonly conditions?: readonly Condition[] };
}

export const architecturePolicies: Resource<ArchitecturePolicy> = defineResource({
  group: API_GROUP,
  version: API_GROUP_VERSION,
  plural: "architecturepolicies",
  kind: "ArchitecturePolicy",
  namespaced: false,
});

/** How many workloads `status.firstUncovered` names at most. */
export const MAX_FIRST_UNCOVERED = 5;
/** `DaemonSet`, a namespace and a name: at most 9 + 63 + 253 characters, plus separators. */
const MAX_WORKLOAD = 330;

const count = (what: string): z.ZodType => z.int().min(0).optional().describe(what);

const status: z.ZodType = z
  .strictObject({
    observedGeneration,
    phase: z
      .enum(["Bootstrapping", "Tainting", "Narrowing"])
      .optional()
      .describe(
        "Bootstrapping: nodes are not tainted yet. Tainting: they are. Narrowing: the affinity of pods is narrowed, and nodes are not tainted.",
      ),
    taintedNodes: count("Nodes that carry its taint."),
    uncovered: count("Pods and DaemonSets that nodes are not tainted for yet."),
    firstUncovered: z
      .array(z.string().max(MAX_WORKLOAD))
      .max(MAX_FIRST_UNCOVERED)
      .optional()
      .describe("The first of them by kind and name; never all of them."),
    waitingPods: count("Pods that wait because their images are not known."),
    impossiblePods: count("Pods that can run nowhere."),
    conditions,
  })
  .describe("What Berth observed last. Only Berth writes it.");

function column(name: string, type: string, jsonPath: string, description: string) {
  return { name, type, jsonPath, description };
}

export const architecturePolicyKind: ServedKind<ArchitecturePolicySpec> = {
  kind: "ArchitecturePolicy",
  whenAway: "release",
  annotations: [BOOTSTRAP_ANNOTATION],
  resource: architecturePolicies,
  singular: "architecturepolicy",
  shortNames: ["ap"],
  description:
    "An ArchitecturePolicy keeps pods on nodes that run their images. Berth taints nodes with their architecture and makes pods tolerate " +
    "what all their images have in common, or narrows the node affinity of new pods to it, or both.",
  spec: architecturePolicySpec,
  status,
  columns: [
    column("Mode", "string", ".spec.mode", "Taint, Affinity or Both."),
    column("Phase", "string", ".status.phase", "Whether nodes are tainted yet."),
    column("Tainted", "integer", ".status.taintedNodes", "Nodes that carry its taint."),
    column(
      "Uncovered",
      "integer",
      ".status.uncovered",
      "Pods and DaemonSets that nodes are not tainted for yet.",
    ),
    column("Waiting", "integer", ".status.waitingPods", "Pods that wait because their images are not known."),
    column(
      "Ready",
      "string",
      '.status.conditions[?(@.type=="Ready")].status',
      "Whether the policy is in force.",
    ),
    column(
      "Admission",
      "string",
      '.status.conditions[?(@.type=="Admission")].reason',
      "Whether the API server asks Berth about new pods. Otherwise Berth handles only pods that wait for a node.",
    ),
    {
      ...column("Impossible", "integer", ".status.impossiblePods", "Pods that can run nowhere."),
      priority: 1,
    },
    { ...column("Key", "string", ".spec.taint.key", "Of the taint."), priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
};
