import type { DaemonSet, Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { NodePlan } from "../node/plan.ts";
import { NEW_YEAR } from "../node/testing/labels.ts";
import { editNode, makeNode, patchNode } from "../node/testing/world.ts";
import { explainGates, type GateExplanation } from "./explain.ts";
import { GateForecast } from "./forecast.ts";
import type { Gates } from "./gate.ts";
import { bind, gatesOf, planFor, TAINT, viewOf } from "./testing/look-once.ts";

/** As a command looks: once, and on trust. */
const plan = (node: Node, gates: Gates, now = NEW_YEAR): NodePlan =>
  planFor(
    node,
    bind(gates, () => now, true),
    now,
  );

function explain(node: Node, gates: Gates, now: number): readonly GateExplanation[] {
  return explainGates(bind(gates, () => now, true).look(viewOf(node), now));
}

const ready = (since: number) => ({
  status: {
    conditions: [{ type: "Net", status: "True", lastTransitionTime: new Date(since).toISOString() }],
  },
});
const network = {
  signals: { conditions: [{ type: "Net" }] },
  stableFor: "5s",
  minimumHold: "1m",
  timeouts: { notReady: "10m", policy: "Cordon" },
};

/** Held since the new year. */
function held(gates: Gates): Node {
  const node = makeNode({ taints: [TAINT] });
  return patchNode(node, plan(node, gates).patch ?? {});
}

describe("explaining the gates of a node", () => {
  const gates = gatesOf({ network });

  it("says since when it is held, what is missing, and when that times out", () => {
    const [it0] = explain(held(gates), gates, NEW_YEAR + 30_000);
    expect(it0).toEqual({
      gate: "cluster/network",
      selected: true,
      held: true,
      phase: "Held",
      reason: "Gated",
      since: "2026-01-01T00:00:00Z",
      after: [],
      signals: [
        {
          signal: "condition Net",
          state: "missing",
          reason: "ConditionMissing",
          message: "the node has no condition Net",
        },
      ],
      minimumHold: { passedMs: 30_000, ofMs: 60_000 },
      timeouts: [{ timeout: "notReady", passedMs: 30_000, ofMs: 600_000, policy: "Cordon" }],
    });
  });

  it("says how long signals have held of the time that they have to", () => {
    const now = NEW_YEAR + 120_000;
    const node = { ...held(gates), ...ready(now - 3000) };
    expect(explain(node, gates, now)).toMatchObject([
      { signals: [{ state: "holds" }], stable: { passedMs: 3000, ofMs: 5000 }, timeouts: [] },
    ]);
    expect(explain(node, gates, now)[0]).not.toHaveProperty("minimumHold");
    expect(explain(node, gates, now + 3000)).toMatchObject([{ held: true, phase: "Open", next: "release" }]);
  });

  it("does not make up how long what bears no time has held", () => {
    const annotated = gatesOf({ network: { signals: { annotations: [{ key: "example.com/ok" }] } } });
    const node = editNode(held(annotated), { annotations: { "example.com/ok": "true" } });
    expect(explain(node, annotated, NEW_YEAR + 60_000)[0]?.stable).toEqual({ ofMs: 5000 });
  });

  it("says that a node was let go, when and why; and nothing of one that never was held", () => {
    const now = NEW_YEAR + 120_000;
    const before = { ...held(gates), ...ready(now - 60_000) };
    const node = patchNode(before, plan(before, gates, now).patch ?? {});
    expect(explain(node, gates, now + 1000)).toEqual([
      {
        gate: "cluster/network",
        selected: true,
        held: false,
        phase: "Open",
        reason: "Released",
        since: "2026-01-01T00:02:00Z",
        after: [],
        signals: [],
        timeouts: [],
      },
    ]);
    const old = {
      ...makeNode(),
      metadata: { ...makeNode().metadata, creationTimestamp: "2020-01-01T00:00:00Z" },
    };
    const [never] = explain(old, gates, now);
    expect(never).not.toHaveProperty("reason");
    expect(never).toMatchObject({ held: false, phase: "Open" });
  });

  it("names the gates that have to let go first, and nothing else to wait for", () => {
    const two = gatesOf({
      network,
      storage: { ...network, after: ["network"], taint: { key: "example.com/storage" } },
    });
    const node = makeNode({ taints: [TAINT, { key: "example.com/storage", effect: "NoSchedule" }] });
    const after = patchNode(node, plan(node, two).patch ?? {});
    expect(explain(after, two, NEW_YEAR + 1000)[1]).toMatchObject({
      gate: "cluster/storage",
      held: true,
      after: ["network"],
      signals: [],
      timeouts: [],
    });
  });
});

const daemonSet = (name: string, spec: object = {}): DaemonSet => ({
  metadata: { name, namespace: "ns", resourceVersion: "1" },
  spec: { selector: { matchLabels: { app: name } }, template: { spec: { containers: [], ...spec } } },
});

describe("the forecast of a plan", () => {
  const gates = gatesOf({
    network: { ...network, nodeSelector: { matchLabels: { pool: "a" } } },
    storage: {
      ...network,
      nodeSelector: { matchLabels: { pool: "a" } },
      taint: { key: "example.com/storage" },
    },
  });

  it("counts what each gate selects and holds, and names whose taint comes or goes", () => {
    const forecast = new GateForecast(gates, []);
    const a = { pool: "a" };
    for (const node of [
      makeNode({ name: "fresh", labels: a }),
      makeNode({ name: "held", labels: a, taints: [TAINT] }),
      { ...held(gates), metadata: { ...held(gates).metadata, name: "moved" } },
      makeNode({ name: "elsewhere" }),
    ]) {
      forecast.add(plan(node, gates));
    }
    expect(forecast.gates()[0]).toEqual({
      gate: "cluster/network",
      selected: 2,
      held: 2,
      hold: ["fresh"],
      release: [],
      pending: 0,
      dryRun: false,
    });
    expect(forecast.gates()[1]).toMatchObject({ selected: 2, held: 0, hold: ["fresh", "held"] });
  });

  it("says of each DaemonSet that a gate waits for where it is meant to be, and where the gate keeps it away", () => {
    const names = ["ok", "blocked", "elsewhere", "gone"];
    const waiting = gatesOf({
      network: {
        ...network,
        signals: { daemonSets: names.map((name) => ({ namespace: "ns", name })) },
      },
    });
    const forecast = new GateForecast(waiting, [
      daemonSet("ok", { tolerations: [{ operator: "Exists" }] }),
      daemonSet("blocked", { nodeSelector: { pool: "a" } }),
      daemonSet("elsewhere", { nodeSelector: { pool: "c" } }),
      daemonSet("other"),
    ]);
    for (const pool of ["a", "b"]) forecast.add(plan(makeNode({ name: pool, labels: { pool } }), waiting));
    const said = forecast
      .awaited()
      .map(({ name, selected, meant, blocked, why }) => [name, selected, meant, blocked, why]);
    const why = (pool: string) => `it asks for pool=${pool}, which the node does not have`;
    expect(said).toEqual([
      ["ns/ok", 2, 2, 0, ""],
      ["ns/blocked", 2, 1, 1, why("a")],
      ["ns/elsewhere", 2, 0, 0, why("c")],
    ]);
  });

  it("names DaemonSets that lose a node to a gate, with what they lack, and no others", () => {
    const hard = { key: "example.com/gpu", effect: "NoSchedule" } as const;
    const sets = [
      daemonSet("all", { tolerations: [{ operator: "Exists" }] }),
      daemonSet("none"),
      daemonSet("half", { tolerations: [{ key: TAINT.key, operator: "Exists" }] }),
      daemonSet("other-pool", { nodeSelector: { pool: "b" } }),
      daemonSet("gpu-only", { nodeSelector: { gpu: "yes" } }),
    ];
    const forecast = new GateForecast(gates, sets);
    const storage = { key: "example.com/storage", effect: "NoSchedule" } as const;
    // A taint of a gate that stands already is no reason not to belong there; that of somebody else is.
    forecast.add(plan(makeNode({ name: "n1", labels: { pool: "a" }, taints: [TAINT, storage] }), gates));
    forecast.add(plan(makeNode({ name: "n2", labels: { pool: "a", gpu: "yes" }, taints: [hard] }), gates));
    forecast.add(plan(makeNode({ name: "n3", labels: { pool: "b" } }), gates));
    const network0 = { key: TAINT.key, operator: "Exists", effect: "NoSchedule" };
    const storage0 = { key: storage.key, operator: "Exists", effect: "NoSchedule" };
    expect(forecast.blocked()).toEqual([
      { namespace: "ns", name: "half", missing: [storage0] },
      { namespace: "ns", name: "none", missing: [network0, storage0] },
    ]);
  });
});
