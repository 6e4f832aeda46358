import {
  collectDefaultMetrics,
  Counter as PromCounter,
  Gauge as PromGauge,
  Histogram as PromHistogram,
  Registry,
} from "prom-client";
import type { Counter, Gauge, Histogram, MetricOptions, MetricsRegistry } from "./metrics.ts";

/** What a registry exposes besides the declared metrics. */
export interface MetricsRegistryOptions {
  /** See `MetricsRegistry.prefix`. Default none. */
  readonly prefix?: string;
  /**
   * Also expose the process: CPU, memory, garbage collection, open files and event loop lag, under prom-client's names.
   * Default true. They are measured until the process ends.
   */
  readonly processMetrics?: boolean;
}

/** 1 ms to 30 s, in seconds: from an in-memory reconcile to a request that meets its deadline. */
const DEFAULT_BUCKETS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];

/**
 * Between two samples of the event loop, ms: the quantiles, the mean, the least and the longest lag contain them.
 * prom-client samples every 10 ms, which is most of the CPU of a process at rest.
 */
const SAMPLED_MS = 100;

/**
 * A registry of its own: nothing is shared with another one or with prom-client's global registry.
 *
 * Declaring a name again returns the same metric, and adds its `collect` to those of a gauge.
 * A `collect` that throws keeps its last value and is counted in `metrics_collect_failures_total`.
 * @throws RangeError when a name is declared again as another kind or with other labels.
 */
export function createMetricsRegistry(options: MetricsRegistryOptions = {}): MetricsRegistry {
  const registry = new Registry();
  const { prefix = "" } = options;
  const signatures = new Map<string, string>();
  // Shared by all who declare a metric: hundreds of clusters declare dozens each.
  const counters = new Map<string, Counter<string>>();
  const gauges = new Map<string, Gauge<string> & { readonly collects: Set<() => void> }>();
  const histograms = new Map<string, Histogram<string>>();
  if (options.processMetrics ?? true)
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: SAMPLED_MS });

  function declare<M>(
    kind: string,
    of: Map<string, M>,
    { name, labels = [] }: MetricOptions<string>,
    create: () => M,
  ): M {
    const signature = `${kind}(${labels.toSorted().join(", ")})`;
    const known = signatures.get(name) ?? signature;
    if (known !== signature)
      throw new RangeError(`metric ${name} is declared as ${known} and as ${signature}`);
    const metric = of.get(name) ?? create();
    of.set(name, metric);
    signatures.set(name, signature);
    return metric;
  }

  const registers = [registry];
  const collectFailures = new PromCounter({
    name: `${prefix}metrics_collect_failures_total`,
    help: "Values that could not be computed at a scrape, by metric.",
    labelNames: ["metric"],
    registers,
  });

  const collectSafely = (metric: string, collect: () => void): void => {
    try {
      collect();
    } catch {
      collectFailures.inc({ metric });
    }
  };

  return {
    prefix,
    counter: (metricOptions) =>
      declare("counter", counters, metricOptions, () => {
        const metric = new PromCounter({ ...promOptions(metricOptions), registers });
        return {
          inc: (labels, by = 1) => metric.inc(labels ?? {}, by),
          remove: (labels) => metric.remove(labels),
        };
      }),
    gauge(metricOptions) {
      const gauge = declare("gauge", gauges, metricOptions, () => {
        const collects = new Set<() => void>();
        const collect = (): void => collects.forEach((one) => collectSafely(metricOptions.name, one));
        const metric = new PromGauge({ ...promOptions(metricOptions), registers, collect });
        return {
          collects,
          set: (value, labels) => metric.set(labels ?? {}, value),
          remove: (labels) => metric.remove(labels),
        };
      });
      const { collect, until } = metricOptions;
      if (collect === undefined) return gauge;
      const own = (): void => collect(gauge);
      gauge.collects.add(own);
      until?.addEventListener("abort", () => void gauge.collects.delete(own), { once: true });
      return gauge;
    },
    histogram: (metricOptions) =>
      declare("histogram", histograms, metricOptions, () => {
        const buckets = [...(metricOptions.buckets ?? DEFAULT_BUCKETS)];
        const metric = new PromHistogram({ ...promOptions(metricOptions), registers, buckets });
        return {
          observe: (value, labels) => metric.observe(labels ?? {}, value),
          remove: (labels) => metric.remove(labels),
        };
      }),
    expose: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  };
}

function promOptions({ name, help, labels = [] }: MetricOptions<string>): {
  name: string;
  help: string;
  labelNames: string[];
} {
  return { name, help, labelNames: [...labels] };
}
