import { describe, expect, it } from "vitest";
import type { MetricsRegistry } from "./metrics.ts";
import { createMetricsRegistry } from "./prometheus.ts";

async function samples(registry: MetricsRegistry): Promise<string[]> {
  return (await registry.expose()).body.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

describe("createMetricsRegistry", () => {
  it("exposes counters, gauges and histograms in the text format", async () => {
    const registry = createMetricsRegistry({ processMetrics: false });
    registry.counter<"result">({ name: "t_total", help: "h", labels: ["result"] }).inc({ result: "ok" }, 2);
    registry.gauge({ name: "t_depth", help: "h" }).set(3);
    registry.histogram({ name: "t_seconds", help: "h", buckets: [1, 2] }).observe(1.5);
    expect((await registry.expose()).contentType).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await samples(registry)).toEqual([
      't_total{result="ok"} 2',
      "t_depth 3",
      't_seconds_bucket{le="1"} 0',
      't_seconds_bucket{le="2"} 1',
      't_seconds_bucket{le="+Inf"} 1',
      "t_seconds_sum 1.5",
      "t_seconds_count 1",
    ]);
  });

  it("returns the same metric for the same name, and refuses another kind or other labels", async () => {
    const registry = createMetricsRegistry({ processMetrics: false });
    registry.counter({ name: "t_total", help: "h" }).inc();
    registry.counter({ name: "t_total", help: "h" }).inc();
    expect(await samples(registry)).toContain("t_total 2");
    expect(() => registry.gauge({ name: "t_total", help: "h" })).toThrow(RangeError);
    expect(() => registry.counter({ name: "t_total", help: "h", labels: ["x"] })).toThrow(RangeError);
  });

  it("asks every collect of a gauge at a scrape; one that throws does not spoil the scrape", async () => {
    const registry = createMetricsRegistry({ processMetrics: false });
    const base = { name: "t_depth", help: "h", labels: ["queue"] } as const;
    registry.gauge<"queue">({ ...base, collect: (gauge) => gauge.set(1, { queue: "a" }) });
    registry.gauge<"queue">({
      ...base,
      collect: () => {
        throw new Error("not now");
      },
    });
    registry.gauge<"queue">({ ...base, collect: (gauge) => gauge.set(2, { queue: "b" }) });
    const lines = await samples(registry);
    expect(lines).toContain('t_depth{queue="a"} 1');
    expect(lines).toContain('t_depth{queue="b"} 2');
    const failures = (await samples(registry)).find((line) =>
      line.startsWith("metrics_collect_failures_total"),
    );
    expect(failures).toMatch(/^metrics_collect_failures_total\{metric="t_depth"\} [12]$/);
  });

  it("keeps two registries apart and adds the process with its event loop lag", async () => {
    const one = createMetricsRegistry();
    const two = createMetricsRegistry({ processMetrics: false });
    one.counter({ name: "t_total", help: "h" }).inc();
    expect(await samples(two)).toEqual([]);
    const { body } = await one.expose();
    for (const name of [
      "process_resident_memory_bytes",
      "nodejs_eventloop_lag_p99_seconds",
      "nodejs_gc_duration_seconds",
    ]) {
      expect(body).toContain(`# TYPE ${name} `);
    }
  });
});
