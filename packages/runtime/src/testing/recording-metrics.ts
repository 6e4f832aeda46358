import type { Gauge, GaugeOptions, MetricsRegistry } from "../metrics.ts";

/** A registry that remembers, for tests. As in the real one, every `collect` of a gauge runs at each reading. */
export interface RecordingMetrics extends MetricsRegistry {
  /** The value for exactly these labels: a sum for counters, the last value for gauges, observations for histograms. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined;
}

/** Creates an empty `RecordingMetrics`. */
export function createRecordingMetrics(): RecordingMetrics {
  const values = new Map<string, number>();
  const collects: (() => void)[] = [];
  const keyOf = (name: string, labels: Readonly<Record<string, string>> = {}): string =>
    `${name} ${JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)))}`;
  const add = (name: string, labels: Readonly<Record<string, string>> | undefined, by: number): void => {
    const key = keyOf(name, labels);
    values.set(key, (values.get(key) ?? 0) + by);
  };
  const remover =
    (name: string) =>
    (labels: Readonly<Record<string, string>>): void =>
      void values.delete(keyOf(name, labels));
  return {
    prefix: "",
    counter: ({ name }) => ({ inc: (labels, by = 1) => add(name, labels, by), remove: remover(name) }),
    gauge: <L extends string>({ name, collect, until }: GaugeOptions<L>) => {
      const gauge: Gauge<L> = {
        set: (value, labels) => void values.set(keyOf(name, labels), value),
        remove: remover(name),
      };
      if (collect !== undefined) collects.push(() => until?.aborted || collect(gauge));
      return gauge;
    },
    histogram: ({ name }) => ({
      observe: (_value, labels) => add(name, labels, 1),
      remove: remover(name),
    }),
    expose: () => Promise.resolve({ contentType: "text/plain", body: "" }),
    value(name, labels) {
      for (const collect of collects) collect();
      return values.get(keyOf(name, labels));
    },
  };
}
