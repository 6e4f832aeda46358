import { createMetricsRegistry, createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import { decideInstance } from "../instance/decide.ts";
import { anInstance, aView, BORN } from "../instance/testing/views.ts";
import type { QuotaSeen } from "../instance/view.ts";
import { createFleetMetrics } from "./metrics.ts";

const down: QuotaSeen = { is: "failed", reason: "QuotaBackendUnavailable", message: "503" };

it("F4 counts looks, failures and further looks at quota, and how long its gate was closed", async () => {
  const registry = createMetricsRegistry({ processMetrics: false });
  const clock = createVirtualClock(BORN + 90_000);
  const metrics = createFleetMetrics(registry, clock, true);
  const fails = metrics.measured("instance", () => Promise.reject(new Error("down")));
  await expect(fails({}, {} as never)).rejects.toThrow("down");
  const waiting = decideInstance(aView({ nowMs: clock.now(), quota: down }));
  metrics.decided(anInstance(), waiting, down);
  metrics.failed("QuotaBackendUnavailable");
  metrics.outages(() => 2);
  metrics.requeued(anInstance(), "pending");
  metrics.decided(anInstance(), { gates: [] }, { is: "off" });
  const { body } = await registry.expose();
  const samples = body.split("\n").filter((line) => line.startsWith("compute_"));
  expect(samples).toEqual(
    expect.arrayContaining([
      'compute_reconcile_total{controller="instance",result="error"} 1',
      'compute_reconcile_seconds_count{controller="instance"} 1',
      'compute_quota_eval_failures_total{reason="QuotaBackendUnavailable"} 1',
      'compute_quota_requeues_total{tier="15s",cause="pending"} 1',
      "compute_quota_gate_wait_seconds_sum 90",
      "compute_quota_enforcement_enabled 1",
      "compute_quota_silent_services 2",
    ]),
  );
});
