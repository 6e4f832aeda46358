import type { MetricsRegistry } from "../metrics.ts";

type Labels = Readonly<Record<string, string>>;

/** The metrics of a part of the program that can end. */
export interface MetricsScope extends MetricsRegistry, Disposable {}

/**
 * The same metrics. Disposing of the scope ends the `collect`s that were declared through it. It also removes each value
 * that was set through it and that has one of these labels: others may set the rest.
 */
export function scopeMetrics(registry: MetricsRegistry, own: Labels): MetricsScope {
  const ending = new AbortController();
  const removals = new Map<string, () => void>();
  const isOwn = (labels: Labels): boolean =>
    Object.entries(own).some(([label, value]) => labels[label] === value);
  /** Remembers how to remove a value. Nothing is set after the end. */
  const setting = <L extends string>(
    name: string,
    metric: { remove(labels: Readonly<Record<L, string>>): void },
  ): ((labels: Readonly<Record<L, string>> | undefined) => boolean) => {
    // Whoever counts often has one object for its labels.
    const known = new WeakSet<object>();
    return (labels) => {
      if (labels !== undefined && !known.has(labels) && isOwn(labels)) {
        known.add(labels);
        removals.set(`${name} ${JSON.stringify(Object.values(labels))}`, () => metric.remove(labels));
      }
      return !ending.signal.aborted;
    };
  };
  return {
    prefix: registry.prefix,
    counter(options) {
      const metric = registry.counter(options);
      const sets = setting(options.name, metric);
      return {
        ...metric,
        inc: (labels, by) => void (sets(labels) && metric.inc(labels, by)),
      };
    },
    gauge({ collect, ...options }) {
      const metric = registry.gauge(options);
      const sets = setting(options.name, metric);
      const gauge: typeof metric = {
        ...metric,
        set: (value, labels) => void (sets(labels) && metric.set(value, labels)),
      };
      if (collect) registry.gauge({ ...options, collect: () => collect(gauge), until: ending.signal });
      return gauge;
    },
    histogram(options) {
      const metric = registry.histogram(options);
      const sets = setting(options.name, metric);
      return {
        ...metric,
        observe: (value, labels) => void (sets(labels) && metric.observe(value, labels)),
      };
    },
    expose: () => registry.expose(),
    [Symbol.dispose]: () => {
      ending.abort();
      for (const remove of removals.values()) remove();
      removals.clear();
    },
  };
}
