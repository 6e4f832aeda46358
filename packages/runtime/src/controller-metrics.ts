import type { MetricsRegistry } from "./metrics.ts";
import type { ResultLabel } from "./reconcile-outcome.ts";

/** The state of a controller that its gauges read at each scrape. */
export interface ControllerState {
  readonly active: number;
  readonly stuck: number;
  readonly concurrency: number;
}

export interface ControllerMetrics {
  /** A reconcile returned after this long. */
  reconciled(result: ResultLabel, tookMs: number): void;
}

/** Declares the metrics of one controller. */
export function declareControllerMetrics(
  registry: MetricsRegistry,
  controller: string,
  state: ControllerState,
): ControllerMetrics {
  const gauge = (name: string, help: string, read: () => number): void =>
    void registry.gauge({
      name: `${registry.prefix}reconcile_${name}`,
      help,
      labels: ["controller"],
      collect: (gauge) => gauge.set(read(), { controller }),
    });
  gauge("active_workers", "Reconciles running now, stuck ones included.", () => state.active);
  gauge("max_concurrent", "Reconciles that may run at one time.", () => state.concurrency);
  gauge(
    "stuck_workers",
    "Reconciles that still run after their deadline and their abort.",
    () => state.stuck,
  );
  const total = registry.counter({
    name: `${registry.prefix}reconcile_total`,
    help: "Reconciles that returned, by result.",
    labels: ["controller", "result"],
  });
  const duration = registry.histogram({
    name: `${registry.prefix}reconcile_duration_seconds`,
    help: "How long reconciles took.",
    labels: ["controller"],
  });
  const labels = { controller };
  const labelsOf = new Map<ResultLabel, { controller: string; result: ResultLabel }>();
  return {
    reconciled: (result, tookMs) => {
      const counted = labelsOf.get(result) ?? { controller, result };
      labelsOf.set(result, counted);
      total.inc(counted);
      duration.observe(tookMs / 1_000, labels);
    },
  };
}
