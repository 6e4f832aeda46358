/** `ArchitecturePolicy` as the API server serves it: resource, status and how kubectl shows it. */

import { conditionOf, counted, type Remark, type ServedKind, toRemark } from "@berth/host";
import type { Resource } from "@berth/kube";
import * as z from "zod";
import { reasons } from "../api/reasons.ts";
import {
  admissionRemarks,
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
import { type ArchitecturePolicySpec, architecturePolicySpec, BOOTSTRAP_ANNOTATION } from "./document.ts";

export type ArchitecturePolicy = Served<ArchitecturePolicyStatus>;

export const architecturePolicies: Resource<ArchitecturePolicy> = servedResource(
  "architecturepolicies",
  "ArchitecturePolicy",
);

/** How many workloads `status.firstUncovered` names at most. */
export const MAX_FIRST_UNCOVERED = 5;
/** `DaemonSet`, a namespace and a name: at most 9 + 63 + 253 characters, plus separators. */
const MAX_WORKLOAD = 330;

const status = statusWith({
  phase: z
    .enum(["Bootstrapping", "Tainting", "Narrowing"])
    .optional()
    .describe(
      "Bootstrapping: nodes are not tainted yet. Tainting: they are. Narrowing: the affinity of pods is narrowed, and nodes are not tainted.",
    ),
  taintedNodes: count("Nodes that carry its taint."),
  uncovered: count("Pods and DaemonSets that nodes are not tainted for yet."),
  firstUncovered: names("The first of them by kind and name; never all of them.", {
    most: MAX_FIRST_UNCOVERED,
    length: MAX_WORKLOAD,
  }),
  waitingPods: count("Pods that wait because their images are not known."),
  impossiblePods: count("Pods that can run nowhere."),
});
export type ArchitecturePolicyStatus = z.infer<typeof status>;

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
  shown: { remarks },
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
    column("Ready", "string", condition("Ready"), "Whether the policy is in force."),
    column(
      "Admission",
      "string",
      condition("Admission", "reason"),
      "Whether the API server asks Berth about new pods. Otherwise Berth handles only pods that wait for a node.",
    ),
    wide(column("Impossible", "integer", ".status.impossiblePods", "Pods that can run nowhere.")),
    wide(column("Key", "string", ".spec.taint.key", "Of the taint.")),
    age,
  ],
};

function remarks(policy: ArchitecturePolicy): readonly Remark[] {
  const { waitingPods: waiting = 0, impossiblePods: impossible = 0 } = policy.status ?? {};
  const tainting = conditionOf(policy, "Tainting");
  const needsPerson = tainting?.reason !== reasons.ArchitectureBootstrapping;
  return [
    ...(tainting?.status === "False" ? [{ ...toRemark(tainting), needsPerson }] : []),
    ...admissionRemarks(policy, "Admission"),
    ...(impossible > 0 ? [{ text: `${counted(impossible, "pod")} can run nowhere`, needsPerson: true }] : []),
    ...(waiting > 0 ? [{ text: `${counted(waiting, "pod")} wait for their images to be looked up` }] : []),
  ];
}
