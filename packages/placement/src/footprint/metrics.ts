import type { MetricsRegistry } from "@berth/runtime";
import type { FootprintCounts } from "./tally.ts";

/** Berth calls each function once at each scrape. */
export interface FootprintMetrics {
  taken(footprints: number, faults: number): void;
  counts(of: () => FootprintCounts): void;
  hindered(of: () => number): void;
}

export function createFootprintMetrics(registry: MetricsRegistry): FootprintMetrics {
  const inForce = registry.gauge({ name: "berth_footprints", help: "Node footprints in force." });
  const problems = registry.gauge({
    name: "berth_footprint_problems",
    help: "Faults in the node footprints as last read.",
  });
  return {
    taken(footprints, faults) {
      inForce.set(footprints);
      problems.set(faults);
    },
    counts(of) {
      // The registry reads gauges in their order of creation: the first one sets all of them.
      const collect = (): void => {
        const counts = of();
        for (const [count, gauge] of made) gauge.set(counts[count]);
      };
      const made = gauges.map(([name, help, count], at) => {
        return [count, registry.gauge({ name, help, ...(at === 0 && { collect }) })] as const;
      });
    },
    hindered(of) {
      registry.gauge({
        name: "berth_footprints_hindered",
        help: "Node footprints in force that lack something, mostly a right: their conditions say what.",
        collect: (gauge) => gauge.set(of()),
      });
    },
  };
}

const gauges: readonly (readonly [string, string, keyof FootprintCounts])[] = [
  ["berth_footprint_labelled_nodes", "Nodes with the label, counted for each footprint.", "labelled"],
  [
    "berth_footprint_needed_nodes",
    "Nodes with a pod that needs the agent, counted for each footprint.",
    "needed",
  ],
  ["berth_footprint_pending_nodes", "Nodes that need an agent and have no label for it yet.", "pending"],
  [
    "berth_footprint_unknown_nodes",
    "Nodes for which Berth does not know whether they need an agent.",
    "unknown",
  ],
  ["berth_footprint_claims", "Claims of groups on nodes.", "claims"],
  ["berth_footprint_foreign_nodes", "Nodes with reported marks of others.", "foreign"],
];
