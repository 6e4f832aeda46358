/** One number per set of label values. Label values must be bounded: never a node, pod or object name. */
export interface Counter<L extends string = never> {
  /** Adds `by`, default 1. */
  inc(labels?: Readonly<Record<L, string>>, by?: number): void;
  /** Exposes these labels no longer. */
  remove(labels: Readonly<Record<L, string>>): void;
}
/** A number that goes up and down, one per set of label values. */
export interface Gauge<L extends string = never> {
  /** Replaces the value. */
  set(value: number, labels?: Readonly<Record<L, string>>): void;
  /** Exposes these labels no longer. */
  remove(labels: Readonly<Record<L, string>>): void;
}
/** The distribution of values, one per set of label values. */
export interface Histogram<L extends string = never> {
  /** Counts one value. */
  observe(value: number, labels?: Readonly<Record<L, string>>): void;
  /** Exposes these labels no longer. */
  remove(labels: Readonly<Record<L, string>>): void;
}

/** Options of every metric. */
export interface MetricOptions<L extends string> {
  /** Prometheus name with its unit: `example_sync_duration_seconds`. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly L[];
}

/** Options of a gauge. */
export interface GaugeOptions<L extends string> extends MetricOptions<L> {
  /** Sets the value at each scrape. */
  readonly collect?: (gauge: Gauge<L>) => void;
  /** Ends `collect` when it aborts. */
  readonly until?: AbortSignal;
}

/**
 * Where metrics are declared. Declaring the same name again returns the same metric. The library behind it
 * (prom-client) appears nowhere else.
 */
export interface MetricsRegistry {
  /** Begins the names of the metrics that this package declares: with `berth_`, one of them is `berth_leader`. */
  readonly prefix: string;
  /** A counter that starts at 0. */
  counter<L extends string = never>(options: MetricOptions<L>): Counter<L>;
  /** `collect` is called at each scrape until `until` aborts, to set the value just then. */
  gauge<L extends string = never>(options: GaugeOptions<L>): Gauge<L>;
  /** `buckets` in the unit of the name, ascending; default: 1 ms to 30 s. */
  histogram<L extends string = never>(
    options: MetricOptions<L> & { readonly buckets?: readonly number[] },
  ): Histogram<L>;
  /** The Prometheus text exposition of everything declared. */
  expose(): Promise<{ readonly contentType: string; readonly body: string }>;
}
