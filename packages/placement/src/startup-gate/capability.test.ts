/** What gates do to nodes, by the plan of the node writer: long, because every way a hold can begin and end is one story. */
import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { NodePlan } from "../node/plan.ts";
import { recordOf } from "../node/record.ts";
import { NEW_YEAR, planWith } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import { parseState } from "./state.ts";
import type { SpecInput } from "./testing/gate-case.ts";
import { type Documents, GateWorld, type WorldInit } from "./testing/gate-world.ts";

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
const whyState = (of: GateWorld): string | undefined =>
  parseState(of.node.metadata?.annotations?.[STATE])?.why;

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

  it("N-P10 of a taint that nobody recorded is one patch too", () => {
    const it = world({ nodes: [{ taints: [before, TAINT], annotations: { ok: "true" } }] });
    expect(brief(it.plan())).toEqual([
      `annotation/${STATE} add Released`,
      `annotation/${AT} add Released`,
      `taint/${KEY}:NoSchedule remove Released`,
    ]);
    it.settle();
    expect([it.writes, taintsOf(it.node)]).toEqual([1, [`${before.key}=`]]);
  });

  it("N-B6 normalises a value of somebody else, and never makes a second taint of it", () => {
    const it = world({ nodes: [{ taints: [{ ...TAINT, value: "other" }, behind] }] });
    it.settle();
    expect(it.node.spec?.taints).toEqual([TAINT, behind]);
    it.edit(ok("true"));
    it.settle();
    expect([it.node.spec?.taints, it.writes]).toEqual([[behind], 2]);
  });

  it("N-P12 N-P13 writes nothing to a node without the taint that is too old, or was let go by the original", () => {
    const old = world({ nodes: [{}] });
    const done = world({ nodes: [{ annotations: { [AT]: "1" } }], ageMs: 0 });
    for (const it of [old, done]) {
      it.idle = { idle: true };
      it.pass(600_000);
      expect([it.writes, it.node.spec?.taints]).toEqual([0, undefined]);
    }
    expect(done.node.metadata?.annotations?.[AT]).toBe("1");
  });

  it("N-P13 of a node that missed admission comes after its hold, two patches in all", () => {
    const it = world({ nodes: [{}], ageMs: 0 });
    it.settle();
    expect(it.writes).toBe(0);
    it.idle = { idle: true };
    it.settle();
    expect([it.writes, isHeld(it)]).toEqual([1, true]);
    it.edit(ok("true"));
    it.settle();
    expect([it.writes, isHeld(it)]).toEqual([2, false]);
  });
});

describe("a taint that cannot go", () => {
  it.each([
    ["the record cannot be read", { annotations: { "berth.dev/marks": "{" } }],
    [
      "another installation has recorded it",
      {
        annotations: {
          "berth.dev/marks": `{"v":1,"by":"other","marks":{"taint/${KEY}:NoSchedule":{"c":"gates","r":"config/g","since":"2026-01-01T00:00:00Z"}}}`,
        },
      },
    ],
  ])("is not written about again and again: %s", (_, { annotations }) => {
    const it = world({ nodes: [{ taints: [TAINT], annotations: { ...annotations, ok: "true" } }] });
    it.pass(3_600_000);
    it.edit({ labels: { other: "1" } });
    it.pass(3_600_000);
    expect([isHeld(it), it.writes]).toEqual([true, 1]);
  });
});

describe("a hold", () => {
  it("begins when it was first seen, and is written once", () => {
    const it = world();
    it.pass(600_000);
    expect(it.writes).toBe(1);
    expect(parseState(it.node.metadata?.annotations?.[STATE])).toMatchObject({
      at: NEW_YEAR,
      boot: "boot-1",
    });
  });

  it("is restored when somebody takes the taint off, or is over, as the gate says", () => {
    const restores = world();
    const releases = world({ spec: { taintRemoved: "Release" } });
    for (const it of [restores, releases]) {
      it.settle();
      it.edit({ spec: { taints: [behind] } });
      it.settle();
    }
    expect(taintsOf(restores.node)).toEqual(["dedicated=db", `${KEY}=wait`]);
    expect([taintsOf(releases.node), whyState(releases)]).toEqual([["dedicated=db"], "ReleasedByHand"]);
    releases.edit({ spec: { taints: [TAINT] } });
    releases.settle();
    expect([isHeld(releases), whyState(releases)]).toEqual([false, "ReleasedByHand"]);
  });

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

  it("is over when labels change so that the gate does not select the node; a taint of others stays", () => {
    const spec = { nodeSelector: { matchLabels: { pool: "a" } } };
    const ours = world({ spec, nodes: [{ labels: { pool: "a" }, taints: [TAINT] }] });
    ours.settle();
    ours.edit({ labels: { pool: "b" } });
    expect(brief(ours.plan())).toEqual([
      `annotation/${STATE} remove GateNotSelected`,
      `taint/${KEY}:NoSchedule remove GateNotSelected`,
    ]);
    const theirs = world({ spec, nodes: [{ labels: { pool: "b" }, taints: [TAINT] }] });
    theirs.settle();
    expect([theirs.writes, isHeld(theirs)]).toEqual([0, true]);
  });
});

describe("a gate that is not there any more", () => {
  const custom = { ...WANTS, taint: { key: "readiness.k8s.io/g" } };
  const release = (gates: Documents): GateWorld => {
    const it = new GateWorld({
      gates,
      nodes: [{ taints: [{ ...TAINT, key: "readiness.k8s.io/g" }, TAINT, behind] }],
    });
    it.settle();
    it.setGates({});
    return it;
  };

  it("lets its nodes go: with the key of the contract", () => {
    const it = release({ g: WANTS });
    expect(brief(it.plan())).toContain(`taint/${KEY}:NoSchedule remove RuleGone`);
    it.settle();
    expect(taintsOf(it.node)).toEqual(["readiness.k8s.io/g=wait", "dedicated=db"]);
    expect(recordOf(it.node).state).toBe("absent");
  });

  it("lets its nodes go: with a protected key that this process has known", () => {
    const it = release({ g: custom });
    expect(brief(it.plan())).toContain("taint/readiness.k8s.io/g:NoSchedule remove RuleGone");
    it.settle();
    expect(taintsOf(it.node)).toEqual([`${KEY}=wait`, "dedicated=db"]);
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
