import * as fc from "fast-check";
import type { BoundCapability } from "../node/capability.ts";
import { capabilityContract } from "../node/testing/capability-contract.ts";
import { makeNode } from "../node/testing/world.ts";
import { gateFields } from "./capability.ts";
import type { SpecInput } from "./testing/gate-case.ts";
import { type Documents, GateWorld } from "./testing/gate-world.ts";

const TAINT = { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" };
const AT = "startup.k8s.io/completedAt";
const STATE = "gate.berth.dev/g";
const before = {
  key: "node.kubernetes.io/not-ready",
  effect: "NoExecute",
  timeAdded: "2026-01-01T00:00:00Z",
};
const behind = { key: "dedicated", value: "db", effect: "NoSchedule" };
/** Waits for what never comes. */
const WANTS: SpecInput = { signals: { annotations: [{ key: "ok" }] }, stableFor: "0s" };
const keyed = (name: string) => ({ ...TAINT, key: `example.com/${name}` });

/** As the composition binds it, with what a node writer under test can do: nothing but nodes, at one moment. */
function boundTo(gates: Documents): BoundCapability {
  const { capability } = new GateWorld({ gates });
  return capability;
}

// What is open stays open, and what is held is held: a release is no matter of the node alone, but of time and order.
capabilityContract({
  enabled: boundTo({
    g: WANTS,
    h: { ...WANTS, taint: { key: "example.com/h" }, mode: "Continuous", heldAgain: { percent: 100 } },
    i: { ...WANTS, taint: { key: "example.com/i" }, nodeSelector: { matchLabels: { pool: "a" } } },
    j: {
      ...WANTS,
      taint: { key: "example.com/j" },
      taintRemoved: "Release",
      completedAnnotation: "example.com/at",
    },
  }),
  disabled: boundTo({}),
  fields: gateFields,
  nodes: fc
    .record({
      labels: fc.constantFrom({ pool: "a" }, { pool: "b" }),
      taints: fc.subarray([before, TAINT, behind, keyed("h"), keyed("i")]),
      annotations: fc.constantFrom<Record<string, string>>({}, { theirs: "1" }, { [AT]: "1" }),
    })
    .map((init) => makeNode(init)),
  edits: fc.oneof(
    fc.constantFrom("a", "b").map((pool) => ({ labels: { pool } })),
    fc
      .subarray([before, TAINT, behind, { ...keyed("i"), value: "other" }, keyed("j")])
      .map((taints) => ({ spec: { taints } })),
    fc.constantFrom(null, "1").map((it) => ({ annotations: { [AT]: it, [STATE]: it } })),
  ),
});
