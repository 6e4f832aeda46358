/** Metrics of startup gates. No metric has a label whose values grow with the cluster. */
import { collectGauges } from "@berth/host";
import { keyOf, type MetricsRegistry } from "@berth/runtime";
import type { DocumentGauges } from "../node/document-gauges.ts";
import type { NodeHost } from "../node/wired.ts";
import { holdsOf } from "./state.ts";
import type { GateRelease, GateTally } from "./tally.ts";

export const gateGauges: DocumentGauges = {
  inForce: { name: "berth_startup_gates", help: "Startup gates in force." },
  problems: {
    name: "berth_startup_gate_problems",
    help: "Faults in the startup gates as last read, by reason.",
    byReason: true,
  },
};

/** @returns counts a release. */
export function countReleases(registry: MetricsRegistry): (release: GateRelease) => void {
  const releases = registry.counter<"reason">({
    name: "berth_gate_releases_total",
    help: "Nodes that a startup gate has released, by reason.",
    labels: ["reason"],
  });
  const seconds = registry.histogram({
    name: "berth_gate_held_seconds",
    help: "How long a startup gate held a node, observed at its release.",
    // Seconds: from a node with a warm image to a node that compiles a driver.
    buckets: [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600],
  });
  return ({ reason, heldForMs }) => {
    releases.inc({ reason });
    if (heldForMs !== undefined) seconds.observe(heldForMs / 1000);
  };
}

export function measureHolds(
  { metrics, nodes, cluster, clock }: Pick<NodeHost, "metrics" | "nodes" | "cluster" | "clock">,
  tally: Pick<GateTally, "held" | "timedOut">,
): void {
  const longestMs = (): number =>
    [...tally.held]
      .flatMap((name) => nodes.get(keyOf(cluster, { metadata: { name } })) ?? [])
      .flatMap(holdsOf)
      .reduce((longest, { at }) => Math.max(longest, clock.now() - at), 0);
  collectGauges(metrics, [
    ["berth_gate_held_nodes", "Nodes that a startup gate holds now.", () => tally.held.size],
    [
      "berth_gate_timed_out_nodes",
      "Nodes that a startup gate holds longer than a timeout of it.",
      () => tally.timedOut,
    ],
    [
      "berth_gate_longest_hold_seconds",
      "For how long a startup gate has held the node that it has held longest; 0 without held nodes.",
      () => longestMs() / 1000,
    ],
  ]);
}
