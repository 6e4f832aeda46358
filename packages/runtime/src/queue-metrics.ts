import type { Counter, Histogram, MetricsRegistry } from "./metrics.ts";
import type { Priority } from "./ready-list.ts";

/** The state of a queue that its gauges read at each scrape. */
export interface QueueState {
  depth(priority: Priority): number;
  readonly oldestAgeMs: number;
  readonly longestRunningMs: number;
}

/** The events that a queue counts while it runs. */
export interface QueueMetrics {
  /** A key that was not pending became pending. */
  added(): void;
  retried(): void;
  refused(): void;
  /** A key was leased this long after it became available. */
  waited(ms: number): void;
}

/** Declares the metrics of one queue. The names follow those of client-go, with our prefix. */
export function declareQueueMetrics(
  registry: MetricsRegistry,
  controller: string,
  state: QueueState,
): QueueMetrics {
  const labels = { controller };
  declareQueueGauges(registry, controller, state);
  const counter = (name: string, help: string): Counter<"controller"> =>
    registry.counter({ name: `${registry.prefix}workqueue_${name}`, help, labels: ["controller"] });
  const adds = counter(
    "adds_total",
    "Keys that became pending; a key that already was is not counted again.",
  );
  const retries = counter("retries_total", "Keys put back with backoff after a failure.");
  const refused = counter(
    "refused_total",
    "Keys refused because the queue was at its bound: their work is lost.",
  );
  const duration: Histogram<"controller"> = registry.histogram({
    name: `${registry.prefix}workqueue_queue_duration_seconds`,
    help: "How long a key that was due waited for a worker.",
    labels: ["controller"],
  });
  return {
    added: () => adds.inc(labels),
    retried: () => retries.inc(labels),
    refused: () => refused.inc(labels),
    waited: (ms) => duration.observe(ms / 1_000, labels),
  };
}

/** Gauges are read at each scrape, so they cost nothing while keys move. */
function declareQueueGauges(registry: MetricsRegistry, controller: string, state: QueueState): void {
  registry.gauge({
    name: `${registry.prefix}workqueue_depth`,
    help: "Keys that are due and wait for a worker.",
    labels: ["controller", "priority"],
    collect: (gauge) => {
      gauge.set(state.depth("high"), { controller, priority: "high" });
      gauge.set(state.depth("low"), { controller, priority: "low" });
    },
  });
  const seconds = (name: string, help: string, readMs: () => number): void =>
    void registry.gauge({
      name: `${registry.prefix}workqueue_${name}_seconds`,
      help,
      labels: ["controller"],
      collect: (gauge) => gauge.set(readMs() / 1_000, { controller }),
    });
  const oldest = "How long the key that is due longest has waited for a worker; 0 when none waits.";
  seconds("oldest_age", oldest, () => state.oldestAgeMs);
  const longest = "How long the oldest reconcile that has not returned is running; 0 when none is.";
  seconds("longest_running_processor", longest, () => state.longestRunningMs);
}
