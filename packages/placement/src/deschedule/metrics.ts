import type { MetricsRegistry } from "@berth/runtime";

export interface DescheduleMetrics {
  evicted(rule: string): void;
  refused(reason: string): void;
  /** Registers functions that are called at each scrape. */
  counts(of: {
    readonly lost: () => number;
    readonly inProgress: () => number;
    readonly frozen: () => number;
  }): void;
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
  const gauge = (name: string, help: string, count: () => number): void =>
    void registry.gauge({ name, help, collect: (it) => it.set(count()) });
  return {
    evicted: (policy) => evictions.inc({ policy }),
    refused: (reason) => refusals.inc({ reason }),
    counts({ lost, inProgress, frozen }) {
      gauge("berth_lost_pods", "Pods on nodes that they do not match any more.", lost);
      gauge("berth_evictions_in_progress", "Evicted pods whose replacement is not Ready yet.", inProgress);
      gauge("berth_frozen_deschedule_policies", "Policies of which too many pods would go at once.", frozen);
    },
  };
}
