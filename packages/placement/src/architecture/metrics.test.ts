import { createMetricsRegistry } from "@berth/runtime";
import { expect, it } from "vitest";
import { createDocumentGauges } from "../node/document-gauges.ts";
import { architectureGauges, createArchitectureMetrics, measureWorkloads } from "./metrics.ts";

it("counts what became of pods and policies, and reads what stands at each scrape", async () => {
  const registry = createMetricsRegistry();
  const metrics = createArchitectureMetrics(registry);
  createDocumentGauges(registry, architectureGauges)(2, [{ reason: "Any" }]);
  metrics.admitted("held");
  metrics.admitted("held");
  metrics.changed("ArchitecturesResolved");
  metrics.lifted(1_500);
  const total = { waiting: 3, impossible: 1, uncovered: 4 };
  measureWorkloads(registry, { total }, { tainted: 5 });
  total.waiting = 2;
  const { body } = await registry.expose();
  for (const line of [
    "berth_architecture_policies 2",
    "berth_architecture_policy_problems 1",
    'berth_architecture_admissions_total{result="held"} 2',
    'berth_architecture_pod_changes_total{reason="ArchitecturesResolved"} 1',
    "berth_architecture_hold_seconds_sum 1.5",
    "berth_architecture_waiting_pods 2",
    "berth_architecture_impossible_pods 1",
    "berth_architecture_uncovered_workloads 4",
    "berth_architecture_tainted_nodes 5",
  ]) {
    expect(body.split("\n")).toContain(line);
  }
});
