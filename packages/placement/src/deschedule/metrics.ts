import type { MetricsRegistry } from "@berth/runtime";

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
