import type { Node } from "@berth/kube";
import { type HealthCheck, type Informer, type MetricsRegistry, problemOf } from "@berth/runtime";

/** Fails until Berth has read the nodes, or the API server has refused the read. */
export function nodesReadCheck(nodes: Informer<Node>): HealthCheck {
  const isRead = (): boolean => nodes.synced || nodes.refusal !== undefined;
  return { name: "nodes-read", check: () => (isRead() ? undefined : "the nodes have not been read yet") };
}

/** Declares a gauge of the components that `/readyz?verbose` reports. */
export function declareProblems(metrics: MetricsRegistry, checks: readonly HealthCheck[]): void {
  metrics.gauge({
    name: "berth_component_problem",
    help: "1 for a component that cannot do its work now, or has not started: /readyz?verbose says why.",
    labels: ["component"],
    collect(gauge) {
      for (const check of checks)
        gauge.set(problemOf(check) === undefined ? 0 : 1, { component: check.name });
    },
  });
}
