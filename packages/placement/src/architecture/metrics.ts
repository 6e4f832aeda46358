import type { MetricsRegistry } from "@berth/runtime";
import type { PodReport } from "./pod-reconciler.ts";

/** The result of a request to create a pod. */
export type PodAdmission = "unchanged" | "placed" | "held" | "refused";

/** Metrics of architecture placement. No label grows with the cluster or names an image. */
interface ArchitectureMetrics extends PodReport {
  /** Policies in force, and documents with a fault. */
  taken(policies: number, faults: number): void;
  admitted(result: PodAdmission): void;
  /** Read at each scrape. */
  counts(of: Readonly<Record<"waiting" | "impossible" | "uncovered" | "tainted", () => number>>): void;
}

/** Hold times, seconds: from a registry nearby to the longest useful `maxHold`. */
const BUCKETS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 900];

const UNCOVERED = "Unscheduled pods and DaemonSets that do not tolerate a taint and have no verdict.";

export function createArchitectureMetrics(registry: MetricsRegistry): ArchitectureMetrics {
  const inForce = registry.gauge({
    name: "berth_architecture_policies",
    help: "Architecture policies in force.",
  });
  const problems = registry.gauge({
    name: "berth_architecture_policy_problems",
    help: "Faults in the architecture policies as last read.",
  });
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
    taken(policies, faults) {
      inForce.set(policies);
      problems.set(faults);
    },
    admitted: (result) => admissions.inc({ result }),
    changed: (reason) => changes.inc({ reason }),
    lifted: (heldMs) => seconds.observe(Math.max(0, heldMs) / 1000),
    counts(of) {
      for (const [what, help, count] of [
        ["waiting_pods", "Pods that wait because their images are not known.", of.waiting],
        ["impossible_pods", "Pods that can run nowhere.", of.impossible],
        ["uncovered_workloads", UNCOVERED, of.uncovered],
        ["tainted_nodes", "Nodes that carry an architecture taint of a policy.", of.tainted],
      ] as const) {
        const name = `berth_architecture_${what}`;
        registry.gauge({ name, help, collect: (gauge) => gauge.set(count()) });
      }
    },
  };
}
