import type { Gauge, MetricsRegistry } from "../metrics.ts";

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
  return {
    prefix: "",
    counter: ({ name }) => ({ inc: (labels, by = 1) => add(name, labels, by) }),
    gauge: <L extends string>({ name, collect }: { name: string; collect?: (gauge: Gauge<L>) => void }) => {
      const gauge: Gauge<L> = { set: (value, labels) => void values.set(keyOf(name, labels), value) };
      if (collect !== undefined) collects.push(() => collect(gauge));
      return gauge;
    },
    histogram: ({ name }) => ({ observe: (_value, labels) => add(name, labels, 1) }),
    expose: () => Promise.resolve({ contentType: "text/plain", body: "" }),
    value(name, labels) {
      for (const collect of collects) collect();
      return values.get(keyOf(name, labels));
    },
  };
}
