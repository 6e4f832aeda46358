import { collectGauges } from "@berth/host";
import type { MetricsRegistry } from "@berth/runtime";
import type { DocumentGauges } from "../node/document-gauges.ts";
import type { FootprintCounts, FootprintTally } from "./tally.ts";

export const footprintGauges: DocumentGauges = {
  inForce: { name: "berth_footprints", help: "Node footprints in force." },
  problems: { name: "berth_footprint_problems", help: "Faults in the node footprints as last read." },
};

/** @param hindered how many footprints lack something. */
export function measureFootprints(
  registry: MetricsRegistry,
  tally: Pick<FootprintTally, "total">,
  hindered: () => number,
): void {
  // The registry reads gauges in their order of creation: the first one sets all of them.
  const collect = (): void => {
    const { total } = tally;
    for (const [count, gauge] of made) gauge.set(total[count]);
  };
  const made = gauges.map(([name, help, count], at) => {
    return [count, registry.gauge({ name, help, ...(at === 0 && { collect }) })] as const;
  });
  const help = "Node footprints in force that lack something, mostly a right: their conditions say what.";
  collectGauges(registry, [["berth_footprints_hindered", help, hindered]]);
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
