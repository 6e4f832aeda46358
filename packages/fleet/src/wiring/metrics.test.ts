import { createMetricsRegistry, createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import { decideInstance } from "../instance/decide.ts";
import { anInstance, aView, BORN } from "../instance/testing/views.ts";
import type { QuotaSeen } from "../instance/view.ts";
import { createFleetMetrics } from "./metrics.ts";

it.each([true, false])("F4 counts looks, and what they say of quota (a service: %s)", async (hasQuota) => {
  const registry = createMetricsRegistry({ processMetrics: false });
  const clock = createVirtualClock(BORN + 90_000);
  const metrics = createFleetMetrics(registry, clock, () => hasQuota);
  const fails = metrics.measured("instance", async () => {
    await clock.advance(2000);
    throw new Error("down");
  });
  await expect(fails({}, {} as never)).rejects.toThrow("down");
  await metrics.measured("workload", () => Promise.resolve(undefined))({}, {} as never);
  const quota: QuotaSeen = { is: "unresolvable", message: "no label" };
  for (const instance of [anInstance(), anInstance({ deleted: true })])
    metrics.decided(instance, decideInstance(aView({ instance, quota })), quota);
  metrics.failed("QuotaBackendUnavailable");
  metrics.outages(() => 2);
  metrics.requeued(anInstance(), "pending");
  metrics.requeued(anInstance({ gates: [] }), "conflict");
  metrics.decided(anInstance(), { gates: [] }, { is: "off" });
  metrics.decided(anInstance({ gates: ["Network"] }), { gates: [] }, { is: "off" });
  const { body } = await registry.expose();
  const samples = body.split("\n").filter((line) => /^compute_(?!.*_bucket)/.test(line));
  expect(samples.toSorted()).toEqual([
    `compute_quota_claims_orphaned_total 1`,
    `compute_quota_enforcement_enabled ${hasQuota ? 1 : 0}`,
    'compute_quota_eval_failures_total{reason="QuotaBackendUnavailable"} 1',
    'compute_quota_eval_failures_total{reason="QuotaProjectIDUnresolvable"} 2',
    "compute_quota_gate_wait_seconds_count 1",
    "compute_quota_gate_wait_seconds_sum 92",
    'compute_quota_requeues_total{tier="15s",cause="pending"} 1',
    "compute_quota_silent_services 2",
    'compute_reconcile_seconds_count{controller="instance"} 1',
    'compute_reconcile_seconds_count{controller="workload"} 1',
    'compute_reconcile_seconds_sum{controller="instance"} 2',
    'compute_reconcile_seconds_sum{controller="workload"} 0',
    'compute_reconcile_total{controller="instance",result="error"} 1',
    'compute_reconcile_total{controller="workload",result="success"} 1',
  ]);
});
