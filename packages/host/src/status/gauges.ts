import type { MetricsRegistry } from "@berth/runtime";

/** Name, help, and the value at each scrape. */
export type CountedGauge = readonly [name: string, help: string, count: () => number];

export function collectGauges(registry: MetricsRegistry, gauges: readonly CountedGauge[]): void {
  for (const [name, help, count] of gauges)
    registry.gauge({ name, help, collect: (gauge) => gauge.set(count()) });
}
