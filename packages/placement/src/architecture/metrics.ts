/** Metrics of architecture placement. No label grows with the cluster or names an image. */
import { collectGauges } from "@berth/host";
import type { MetricsRegistry } from "@berth/runtime";
import type { DocumentGauges } from "../node/document-gauges.ts";
import type { PodReport } from "./pod-reconciler.ts";
import type { ArchitectureNodeTally, ArchitectureTally } from "./tally.ts";

/** The result of a request to create a pod. */
export type PodAdmission = "unchanged" | "placed" | "held" | "refused";

interface ArchitectureMetrics extends PodReport {
  readonly admitted: (result: PodAdmission) => void;
}

export const architectureGauges: DocumentGauges = {
  inForce: { name: "berth_architecture_policies", help: "Architecture policies in force." },
  problems: {
    name: "berth_architecture_policy_problems",
    help: "Faults in the architecture policies as last read.",
  },
};

/** Hold times, seconds: from a registry nearby to the longest useful `maxHold`. */
const BUCKETS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 900];

const UNCOVERED = "Unscheduled pods and DaemonSets that do not tolerate a taint and have no verdict.";

export function createArchitectureMetrics(registry: MetricsRegistry): ArchitectureMetrics {
  const admissions = registry.counter<"result">({
    name: "berth_architecture_admissions_total",
    help: "Pods reviewed at their creation, by result: unchanged, placed, held until their images are known, refused.",
    labels: ["result"],
  });
  const changes = registry.counter<"reason">({
    name: "berth_architecture_pod_changes_total",
    help: "Pods changed after their creation, by the reason of the verdict.",
    labels: ["reason"],
  });
  const seconds = registry.histogram({
    name: "berth_architecture_hold_seconds",
    help: "From the creation of a pod until its scheduling gate was lifted.",
    buckets: BUCKETS,
  });
  return {
    admitted: (result) => admissions.inc({ result }),
    changed: (reason) => changes.inc({ reason }),
    lifted: (heldMs) => seconds.observe(Math.max(0, heldMs) / 1000),
  };
}

export function measureWorkloads(
  registry: MetricsRegistry,
  tally: Pick<ArchitectureTally, "total">,
  nodes: Pick<ArchitectureNodeTally, "tainted">,
): void {
  collectGauges(registry, [
    [
      "berth_architecture_waiting_pods",
      "Pods that wait because their images are not known.",
      () => tally.total.waiting,
    ],
    ["berth_architecture_impossible_pods", "Pods that can run nowhere.", () => tally.total.impossible],
    ["berth_architecture_uncovered_workloads", UNCOVERED, () => tally.total.uncovered],
    [
      "berth_architecture_tainted_nodes",
      "Nodes that carry an architecture taint of a policy.",
      () => nodes.tainted,
    ],
  ]);
}
