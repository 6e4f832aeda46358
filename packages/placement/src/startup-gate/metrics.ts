import type { MetricsRegistry } from "@berth/runtime";
import { createFaultGauge } from "../node/fault-gauge.ts";
import type { GateRelease } from "./tally.ts";

/** No metric has a label whose values grow with the cluster. */
export interface GateMetrics {
  /** Gates in force, and faults of documents by reason. */
  taken(gates: number, faults: readonly { readonly reason: string }[]): void;
  released(release: GateRelease): void;
  /** The functions are called at each scrape. `longestMs`: of the holds of now. */
  counts(of: Readonly<Record<"held" | "timedOut" | "longestMs", () => number>>): void;
}

export function createGateMetrics(registry: MetricsRegistry): GateMetrics {
  const inForce = registry.gauge({ name: "berth_startup_gates", help: "Startup gates in force." });
  const faultsNow = createFaultGauge(registry, {
    name: "berth_startup_gate_problems",
    help: "Faults in the startup gates as last read, by reason.",
  });
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
  return {
    taken(gates, faults) {
      inForce.set(gates);
      faultsNow(faults);
    },
    released({ reason, heldForMs }) {
      releases.inc({ reason });
      if (heldForMs !== undefined) seconds.observe(heldForMs / 1000);
    },
    counts({ held, timedOut, longestMs }) {
      registry.gauge({
        name: "berth_gate_held_nodes",
        help: "Nodes that a startup gate holds now.",
        collect: (gauge) => gauge.set(held()),
      });
      registry.gauge({
        name: "berth_gate_timed_out_nodes",
        help: "Nodes that a startup gate holds longer than a timeout of it.",
        collect: (gauge) => gauge.set(timedOut()),
      });
      registry.gauge({
        name: "berth_gate_longest_hold_seconds",
        help: "For how long a startup gate has held the node that it has held longest; 0 without held nodes.",
        collect: (gauge) => gauge.set(longestMs() / 1000),
      });
    },
  };
}
