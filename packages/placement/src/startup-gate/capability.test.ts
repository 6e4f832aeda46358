/** What gates do to nodes, by the plan of the node writer: long, because every way a hold can begin and end is one story. */
import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { NodePlan } from "../node/plan.ts";
import { recordOf } from "../node/record.ts";
import { NEW_YEAR, planWith } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import type { SpecInput } from "./testing/gate-case.ts";
import { GateWorld, type WorldInit } from "./testing/gate-world.ts";

const KEY = "startup.k8s.io/initializing";
const TAINT = { key: KEY, value: "wait", effect: "NoSchedule" };
const AT = "startup.k8s.io/completedAt";
const STATE = "gate.berth.dev/g";
const before = {
  key: "node.kubernetes.io/not-ready",
  effect: "NoExecute",
  timeAdded: "2026-01-01T00:00:00Z",
};
const behind = { key: "dedicated", value: "db", effect: "NoSchedule" };
/** Waits for an annotation: the simplest thing that comes and goes. */
const WANTS: SpecInput = { signals: { annotations: [{ key: "ok" }] }, stableFor: "0s" };
const ok = (value: string | null) => ({ annotations: { ok: value } });
const world = (init: WorldInit & { readonly spec?: SpecInput } = {}): GateWorld =>
  new GateWorld({ gates: { g: { ...WANTS, ...init.spec } }, nodes: [{ taints: [TAINT] }], ...init });
const taintsOf = (node: Node): string[] =>
  (node.spec?.taints ?? []).map(({ key, value }) => `${key}=${value ?? ""}`);
const isHeld = (of: GateWorld): boolean => taintsOf(of.node).includes(`${KEY}=wait`);
const brief = ({ changes }: NodePlan): string[] =>
  changes.map(({ id, action, reason }) => `${id} ${action} ${reason}`);

describe("a release", () => {
  it("N-P5 is one patch: the taint, completedAt and the record; taints of others stay in their order", () => {
    const it = world({ nodes: [{ taints: [before, TAINT, behind] }] });
    it.settle();
    it.edit(ok("true"));
    const { patch } = it.plan();
    expect(patch?.spec).toEqual({ taints: [before, behind] });
    expect(patch?.metadata.annotations).toMatchObject({
      [AT]: `${NEW_YEAR / 1000}`,
      [STATE]: expect.any(String),
    });
    expect(it.act()).toBe(true);
    expect(it.plan().patch).toBeUndefined();
    const record = recordOf(it.node);
    expect(record.state === "read" && [...record.record.marks.keys()]).toEqual([
      `annotation/${STATE}`,
      `annotation/${AT}`,
    ]);
  });
});

it.each([
  ["stays", [], true],
  ["goes", [{ key: "karpenter.sh/disrupted", effect: "NoSchedule" }], false],
])("N-B14 a node that %s and loses a signal of a continuous gate", (_, taints, isHeldAgain) => {
  const it = world({ nodes: [{ taints, annotations: { ok: "true" } }], spec: { mode: "Continuous" } });
  it.settle();
  it.edit(ok(null));
  it.settle();
  expect(isHeld(it)).toBe(isHeldAgain);
});

describe("a taint that cannot go", () => {
  const mark = { c: "gates", r: "config/g", since: "2026-01-01T00:00:00Z" };
  it.each([
    ["the record cannot be read", "{"],
    [
      "another installation has recorded it",
      JSON.stringify({ v: 1, by: "other", marks: { [`taint/${KEY}:NoSchedule`]: mark } }),
    ],
  ])("is not written about again and again: %s", (_, marks) => {
    const it = world({ nodes: [{ taints: [TAINT], annotations: { "berth.dev/marks": marks, ok: "true" } }] });
    it.pass(3_600_000);
    it.edit({ labels: { other: "1" } });
    it.pass(3_600_000);
    expect([isHeld(it), it.writes]).toEqual([true, 1]);
  });
});

describe("a hold", () => {
  it("goes over to another key or effect by one patch when the gate is edited, whatever a removed taint means", () => {
    const it = world({ spec: { taintRemoved: "Release" } });
    it.settle();
    const { writes } = it;
    it.setGates({
      g: { ...WANTS, taintRemoved: "Release", taint: { key: "readiness.k8s.io/g", effect: "NoExecute" } },
    });
    it.settle();
    expect([taintsOf(it.node), it.writes]).toEqual([["readiness.k8s.io/g=wait"], writes + 1]);
  });

  it("has to see other signals stable anew, though they say the same", () => {
    const it = world({
      spec: { stableFor: "30s" },
      nodes: [{ taints: [TAINT], annotations: { ok: "true" } }],
    });
    it.pass(29_000);
    it.edit({ annotations: { other: "true" } });
    it.setGates({ g: { ...WANTS, stableFor: "30s", signals: { annotations: [{ key: "other" }] } } });
    it.pass(29_000);
    expect(isHeld(it)).toBe(true);
    it.pass(1_000);
    expect(isHeld(it)).toBe(false);
  });

  it("that was never written down is nothing to the next one", () => {
    const it = world({
      spec: { minimumHold: "30s" },
      nodes: [{ taints: [TAINT], annotations: { ok: "true" } }],
    });
    it.isLost = () => true;
    it.pass(10_000);
    it.edit({ spec: { taints: null } });
    it.pass(60_000);
    it.isLost = () => false;
    it.edit({ spec: { taints: [TAINT] } });
    it.pass(29_000);
    expect(isHeld(it)).toBe(true);
    it.pass(1_000);
    expect(isHeld(it)).toBe(false);
  });

  it("comes back when the server took the note of it and refused the taint", () => {
    const it = world({ nodes: [{}], ageMs: 0 });
    it.idle = { idle: true };
    it.settle();
    const marks = it.node.metadata?.annotations?.["berth.dev/marks"] ?? "";
    const { [`taint/${KEY}:NoSchedule`]: _, ...rest } = JSON.parse(marks).marks;
    const record = JSON.stringify({ ...JSON.parse(marks), marks: rest });
    it.edit({ annotations: { "berth.dev/marks": record }, spec: { taints: null } });
    it.settle();
    expect(isHeld(it)).toBe(true);
  });
});

describe("a gate that is not there any more", () => {
  const OTHER = "readiness.k8s.io/g";
  it.each([
    ["the key of the contract", KEY, OTHER],
    ["a protected key that this process has known", OTHER, KEY],
  ])("lets its nodes go: with %s", (_, key, other) => {
    const taints = [{ ...TAINT, key: OTHER }, TAINT, behind];
    const it = new GateWorld({ gates: { g: { ...WANTS, taint: { key } } }, nodes: [{ taints }] });
    it.settle();
    it.setGates({});
    expect(brief(it.plan())).toContain(`taint/${key}:NoSchedule remove RuleGone`);
    it.settle();
    expect([taintsOf(it.node), recordOf(it.node).state]).toEqual([
      [`${other}=wait`, "dedicated=db"],
      "absent",
    ]);
  });

  it.each(["readiness.k8s.io/g", "startup-taint.cluster-autoscaler.kubernetes.io/g"])(
    "lets its nodes go: with a key for startup taints that no process knows any more, deleted or replaced",
    (key) => {
      for (const [gates, left] of [
        [{}, []],
        [{ g: { ...WANTS, taint: { key: "example.com/g" } } }, ["example.com/g=wait"]],
      ] as const) {
        const it = new GateWorld({
          gates: { g: { ...WANTS, taint: { key } } },
          nodes: [{ taints: [{ key, value: "wait", effect: "NoSchedule" }] }],
        });
        it.settle();
        it.setGates({});
        it.restart();
        it.setGates(gates);
        it.settle();
        expect(taintsOf(it.node)).toEqual(left);
      }
    },
  );

  it("S-7 keeps its nodes held by a key that was never declared: a forged record gains nothing", () => {
    for (const key of ["dedicated", KEY, "readiness.k8s.io/g"]) {
      const marks = { [`taint/${key}:NoSchedule`]: { c: "gates", r: "config/gone", since: "" } };
      const annotations = { "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks }) };
      const node = makeNode({ annotations, taints: [{ key, effect: "NoSchedule" }] });
      const gates = { g: { ...WANTS, taint: { key: "example.com/g" } } };
      const { capability } = new GateWorld({ gates });
      const { changes } = planWith(node, [capability], { declared: new Set() });
      expect(changes.filter(({ action }) => action === "remove")).toEqual([]);
    }
  });

  it("takes off for a moment what admission has put on since, but not what it does not select or has another value", () => {
    const spec = { ...WANTS, nodeSelector: { matchLabels: { pool: "a" } }, taint: { key: "example.com/g" } };
    const taint = { key: "example.com/g", value: "wait", effect: "NoSchedule" };
    const it = new GateWorld({ gates: { g: spec }, nodes: [] });
    const gone = it.gates?.gates ?? [];
    it.register({ name: "late", labels: { pool: "a" }, taints: [taint] });
    it.register({ name: "elsewhere", labels: { pool: "b" }, taints: [taint] });
    it.register({ name: "other", labels: { pool: "a" }, taints: [{ ...taint, value: "mine" }] });
    it.setGates({}, { gone });
    expect(brief(it.plan("late"))).toEqual(["taint/example.com/g:NoSchedule remove RuleGone"]);
    it.settle();
    expect(["late", "elsewhere", "other"].map((name) => taintsOf(it.nodeOf(name)))).toEqual([
      [],
      ["example.com/g=wait"],
      ["example.com/g=mine"],
    ]);
    it.register({ name: "later", labels: { pool: "a" }, taints: [taint] });
    it.setGates({});
    expect(it.plan("later").changes).toEqual([]);
  });

  it("may be one of a source that is not read yet: its nodes stay held until all are", () => {
    const it = world();
    it.settle();
    it.setGates({}, { unsettled: "reading" });
    expect(it.plan().stays.map(({ reason }) => reason)).toEqual(["SourceNotRead", "SourceNotRead"]);
    it.setGates({});
    it.settle();
    expect(isHeld(it)).toBe(false);
  });

  it("keeps its nodes held while it has a fault, counted as held, and while its source is not read", () => {
    const faulty = world();
    faulty.settle();
    faulty.setGates({}, { unreadable: ["g"] });
    faulty.settle();
    expect([isHeld(faulty), faulty.plan().stays.map(({ reason }) => reason)]).toEqual([
      true,
      ["GateInvalid", "GateInvalid"],
    ]);
    expect(faulty.tally.counts("config/g")).toMatchObject({ held: 1 });
    const unread = world();
    unread.settle();
    unread.setGates(undefined);
    expect(unread.plan().stays.map(({ reason }) => reason)).toEqual(["SourceNotRead", "SourceNotRead"]);
    unread.setGates({}, { source: "cluster" });
    expect(unread.plan().stays.map(({ reason }) => reason)).toEqual(["SourceNotRead", "SourceNotRead"]);
  });

  it("hands its nodes over to one of another name or source: held ones stay held, others stay open", () => {
    for (const [name, source] of [
      ["g", "cluster"],
      ["other", "config"],
    ] as const) {
      const it = world({
        nodes: [{ taints: [TAINT] }, { name: "n2", taints: [TAINT], annotations: { ok: "true" } }],
      });
      it.idle = { idle: true };
      it.settle();
      it.onWrite = (was, is) => expect(taintsOf(is)).toEqual(taintsOf(was));
      it.setGates({ [name]: { ...WANTS, backfill: { within: "1000h" } } }, { source });
      it.pass(600_000);
      expect([isHeld(it), taintsOf(it.nodeOf("n2"))]).toEqual([true, []]);
      it.onWrite = () => {};
      it.edit(ok("true"));
      it.settle();
      expect(isHeld(it)).toBe(false);
    }
  });

  it("whose taint one in force takes over does not keep it", () => {
    const it = world();
    it.settle();
    const both = { a: WANTS, g: WANTS };
    it.setGates(both);
    expect(it.gates?.faults).toMatchObject([{ name: "g" }, { name: "g" }]);
    it.edit(ok("true"));
    it.settle();
    expect(isHeld(it)).toBe(false);
  });
});

describe("gates behind each other", () => {
  const gates = {
    first: { ...WANTS, signals: { annotations: [{ key: "first" }] } },
    second: { ...WANTS, taint: { key: "example.com/second" }, after: ["first"], minimumHold: "10s" },
  };
  const both = [TAINT, { key: "example.com/second", value: "wait", effect: "NoSchedule" }];

  it("let go in their order, each by one patch, and the second begins when the first has let go", () => {
    const it = new GateWorld({ gates, nodes: [{ taints: both, annotations: { ok: "true" } }] });
    it.pass(60_000);
    expect(taintsOf(it.node)).toHaveLength(2);
    it.edit({ annotations: { first: "true" } });
    it.pass(9_000);
    expect(taintsOf(it.node)).toEqual(["example.com/second=wait"]);
    it.pass(1_000);
    expect([taintsOf(it.node), it.writes]).toEqual([[], 3]);
  });

  it("keep their order while somebody takes the first taint off, and before the first has come", () => {
    const off = new GateWorld({
      gates: { ...gates, second: { ...gates.second, minimumHold: "0s" } },
      nodes: [{ taints: both, annotations: { ok: "true" } }],
    });
    off.settle();
    off.edit({ spec: { taints: [both[1]] } });
    off.settle();
    expect(taintsOf(off.node)).toEqual(["example.com/second=wait", `${KEY}=wait`]);
    const late = new GateWorld({
      gates,
      nodes: [{ taints: both.slice(1), annotations: { ok: "true" } }],
      ageMs: 0,
    });
    late.pass(60_000);
    expect(taintsOf(late.node)).toEqual(["example.com/second=wait"]);
    late.idle = { idle: true };
    late.settle();
    expect(taintsOf(late.node)).toHaveLength(2);
  });

  it("cordon a node together: it is uncordoned when the last of them lets go", () => {
    const timeouts = { notReady: "1m", policy: "Cordon" } as const;
    const it = new GateWorld({
      gates: {
        a: { ...WANTS, timeouts },
        b: { ...WANTS, timeouts, taint: { key: "example.com/b" }, signals: { annotations: [{ key: "b" }] } },
      },
      nodes: [{ taints: [TAINT, { key: "example.com/b", value: "wait", effect: "NoSchedule" }] }],
    });
    it.pass(120_000);
    const { writes } = it;
    expect([writes, it.node.spec?.unschedulable]).toEqual([2, true]);
    it.edit(ok("true"));
    it.settle();
    expect([it.writes, it.node.spec?.unschedulable, taintsOf(it.node)]).toEqual([
      writes + 1,
      true,
      ["example.com/b=wait"],
    ]);
    it.edit({ annotations: { b: "true" } });
    it.settle();
    expect([it.writes, it.node.spec?.unschedulable, taintsOf(it.node)]).toEqual([writes + 2, undefined, []]);
  });
});

describe("nodes held again", () => {
  it("are no more than the cap, and the next when one is let go", () => {
    const nodes = ["n1", "n2", "n3"].map((name) => ({ name, taints: [TAINT], annotations: { ok: "true" } }));
    const it = new GateWorld({ gates: { g: { ...WANTS, mode: "Continuous" } }, nodes });
    it.settle();
    for (const name of it.nodes.keys()) it.edit(ok(null), name);
    it.pass(60_000);
    const held = (): string[] =>
      [...it.nodes].filter(([, node]) => taintsOf(node).length > 0).map(([name]) => name);
    expect([held(), it.tally.counts("config/g").heldAgain]).toEqual([["n1"], 1]);
    it.edit(ok("true"), "n1");
    it.pass(20_000);
    expect(held()).toEqual(["n2"]);
  });
});

describe("explaining", () => {
  it("says what each signal says, and is remembered by nobody", () => {
    const it = world();
    const mark = {
      id: `taint/${KEY}:NoSchedule`,
      value: "wait",
      rule: "config/g",
      reason: "Gated",
      foreign: "overwrite",
    } as const;
    expect(it.capability.inputs(it.viewOf(), mark)).toEqual([
      'annotation ok: the node has no such annotation; "true" is wanted',
    ]);
    expect(it.capability.inputs(it.viewOf(), { ...mark, rule: "config/other" })).toEqual([]);
    expect(it.clocks.remembered).toBe(0);
  });
});
