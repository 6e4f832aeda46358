import { collectGauges } from "@berth/host";
import type { MetricsRegistry } from "@berth/runtime";
import type { DocumentGauges } from "../node/document-gauges.ts";
import type { EvictionLedger } from "./ledger.ts";
import type { LostPods } from "./lost-pods.ts";
import type { DeschedulePolicyInForce } from "./policy.ts";

export const descheduleGauges: DocumentGauges = {
  inForce: { name: "berth_deschedule_policies", help: "Deschedule policies in force." },
  problems: {
    name: "berth_deschedule_policy_problems",
    help: "Faults in the deschedule policies as last read.",
  },
};

export interface DescheduleMetrics {
  evicted(rule: string): void;
  refused(reason: string): void;
}

export function createDescheduleMetrics(registry: MetricsRegistry): DescheduleMetrics {
  const evictions = registry.counter({
    name: "berth_evictions_total",
    help: "Pods that the API server has accepted to evict, by policy.",
    labels: ["policy"],
  });
  const refusals = registry.counter({
    name: "berth_evictions_refused_total",
    help: "Evictions that the API server refused, by reason.",
    labels: ["reason"],
  });
  return {
    evicted: (policy) => evictions.inc({ policy }),
    refused: (reason) => refusals.inc({ reason }),
  };
}

export function measureEvictions(
  registry: MetricsRegistry,
  { lost, ledger }: { readonly lost: Pick<LostPods, "size">; readonly ledger: EvictionLedger },
  policies: () => readonly DeschedulePolicyInForce[],
): void {
  collectGauges(registry, [
    ["berth_lost_pods", "Pods on nodes that they do not match any more.", () => lost.size],
    [
      "berth_evictions_in_progress",
      "Evicted pods whose replacement is not Ready yet.",
      () => ledger.inProgress.size,
    ],
    [
      "berth_frozen_deschedule_policies",
      "Policies of which too many pods would go at once.",
      () => policies().filter(({ rule }) => ledger.frozen(rule).length > 0).length,
    ],
  ]);
}
