import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Change } from "../node/change.ts";
import { noMarks } from "../node/mark-set.ts";
import type { NodeOutcome } from "../node/observer.ts";
import { NEW_YEAR } from "../node/testing/labels.ts";
import type { GatePhase } from "./decide.ts";
import { type GateState, stringifyState } from "./state.ts";
import { type GateRelease, GateTally } from "./tally.ts";
import { gateOf } from "./testing/gate-case.ts";

type Phases = Readonly<Record<string, GatePhase>>;

function outcomeOf(phases: Phases): NodeOutcome {
  const set = new Set<string>();
  const policy = {
    sourcesRead: set,
    rules: set,
    declared: noMarks,
    allowedProtected: noMarks,
    exclusive: noMarks,
  };
  const outcomes = Object.entries(phases).map(([rule, phase]) => ({ rule, phase }));
  const decision = { marks: [], keep: new Map(), findings: [], outcomes };
  const others = {
    capability: "labels",
    policy,
    decision: { ...decision, outcomes: [{ rule: "folder/x" }] },
  };
  const contributions = [others, { capability: "gates", policy, decision }];
  return { contributions, owned: new Map(), changes: [], withheld: new Map() };
}

function tallied() {
  const asked: string[] = [];
  const releases: GateRelease[] = [];
  const tally = new GateTally({
    now: () => NEW_YEAR,
    onChange: (rule) => void asked.push(rule),
    onRelease: (release) => void releases.push(release),
  });
  return {
    tally,
    asked,
    releases,
    decided: (name: string, phases: Phases) => tally.decided(name, outcomeOf(phases)),
  };
}

const RULES = ["config/a", "cluster/b"];
const phase = fc.constantFrom<GatePhase>(
  "NotSelected",
  "Open",
  "Held",
  "HeldAgain",
  "TimedOut",
  "TimedOutAgain",
  "WouldHold",
  "WouldRelease",
);

describe("counting nodes", () => {
  it("counts as if all nodes were counted anew, and tells of nothing but changes", () => {
    const phases = fc.dictionary(fc.constantFrom(...RULES), phase);
    const node = fc.constantFrom("n1", "n2", "n3", "n4", "n5", "n6", "n7");
    const steps = fc.array(fc.tuple(node, fc.option(phases)), { maxLength: 30 });
    fc.assert(
      fc.property(steps, (history) => {
        const { tally, asked, decided } = tallied();
        const now = new Map<string, Phases>();
        for (const [name, next] of history) {
          if (next === null) tally.gone(name);
          else decided(name, next);
          now.delete(name);
          if (next !== null) now.set(name, next);
          asked.length = 0;
          if (next !== null) decided(name, next);
          expect(asked).toEqual([]);
        }
        const named = (rule: string, among: readonly GatePhase[]): string[] =>
          [...now].filter(([, it]) => among.some((one) => it[rule] === one)).map(([name]) => name);
        const standing = ["Held", "HeldAgain", "TimedOut", "TimedOutAgain", "WouldRelease"] as const;
        const held = (rule: string) => named(rule, standing);
        for (const rule of RULES) {
          const wouldHold = named(rule, ["WouldHold"]);
          expect(tally.counts(rule)).toEqual({
            selected: held(rule).length + named(rule, ["Open", "WouldHold"]).length,
            held: held(rule).length,
            heldAgain: named(rule, ["HeldAgain", "TimedOutAgain"]).length,
            timedOut: named(rule, ["TimedOut", "TimedOutAgain"]).length,
            firstHeld: (wouldHold.length > 0 ? wouldHold : held(rule)).sort().slice(0, 5),
            wouldHold: wouldHold.length,
            wouldRelease: named(rule, ["WouldRelease"]).length,
          });
        }
        expect(tally.held).toEqual(new Set(RULES.flatMap(held)));
        expect(tally.timedOut).toBe(
          new Set(RULES.flatMap((rule) => named(rule, ["TimedOut", "TimedOutAgain"]))).size,
        );
      }),
    );
  });
});

describe("how many may be held again", () => {
  const may = (
    heldAgain: { percent: number; nodes: number },
    nodes: readonly GatePhase[],
    node = "new",
    standing: readonly string[] = [],
  ): boolean => {
    const { tally, decided } = tallied();
    for (const [at, one] of nodes.entries()) decided(`n${at}`, { "config/g": one });
    return tally.mayHoldAgain(gateOf({ heldAgain }), node, standing);
  };
  const ten = (...first: GatePhase[]): GatePhase[] => [
    ...first,
    ...Array<GatePhase>(10 - first.length).fill("Open"),
  ];

  it.each([
    ["a share of those that are selected", { percent: 20, nodes: 0 }, ten("HeldAgain"), true],
    ["and no more", { percent: 20, nodes: 0 }, ten("HeldAgain", "TimedOutAgain"), false],
    ["rounded down", { percent: 19, nodes: 0 }, ten("HeldAgain"), false],
    ["but never less than so many", { percent: 0, nodes: 2 }, ten("HeldAgain"), true],
    ["fresh nodes do not count", { percent: 20, nodes: 0 }, ten("Held", "TimedOut", "Held", "Held"), true],
    ["none", { percent: 0, nodes: 0 }, ten(), false],
    ["all", { percent: 100, nodes: 0 }, Array<GatePhase>(10).fill("HeldAgain"), true],
    ["a gate that selects no node yet", { percent: 50, nodes: 0 }, [], false],
  ] as const)("%s", (_, limit, nodes, expected) => expect(may(limit, nodes)).toBe(expected));

  it("counts nodes that say they are held again before they are decided, and each once", () => {
    const two = { percent: 20, nodes: 0 };
    expect(may(two, ten("HeldAgain"), "new", ["n0"])).toBe(true);
    expect(may(two, ten("HeldAgain"), "new", ["n0", "n5"])).toBe(false);
    expect(may({ percent: 0, nodes: 1 }, ten(), "new", ["n5"])).toBe(false);
    expect(may({ percent: 0, nodes: 1 }, ten(), "n5", ["n5"])).toBe(true);
  });

  it("one that is held again stays so", () => {
    expect(may({ percent: 0, nodes: 0 }, ["HeldAgain", "HeldAgain"], "n1")).toBe(true);
  });
});

describe("releases", () => {
  const held = stringifyState({ state: "held", why: "Gated", at: NEW_YEAR - 90_000 });
  const letGo = (why: Extract<GateState, { state: "released" }>["why"]) =>
    stringifyState({ state: "released", why, at: NEW_YEAR });
  const change = (more: Partial<Change>): Change => ({
    id: "annotation/gate.berth.dev/g",
    action: "overwrite",
    capability: "gates",
    rule: "config/g",
    reason: "ValueRestored",
    ...more,
  });
  it.each<[string, Partial<Change>, readonly GateRelease[]]>([
    [
      "tell how long the node was held",
      { before: held, after: letGo("Released") },
      [{ rule: "config/g", reason: "Released", heldForMs: 90_000 }],
    ],
    [
      "do not where the node does not say it",
      { after: letGo("TimedOut") },
      [{ rule: "config/g", reason: "TimedOut" }],
    ],
    ["are none when the node was let go before", { before: letGo("TimedOut"), after: letGo("Released") }, []],
    [
      "are none when it is only recorded",
      { action: "adopt", before: letGo("Released"), after: letGo("Released") },
      [],
    ],
    ["are none when the gate is gone", { action: "remove", before: held }, []],
    ["are none when it is held", { after: held }, []],
    ["are no other annotation", { id: "annotation/example.com/g", after: letGo("Released") }, []],
    ["are nothing of another capability", { capability: "labels", after: letGo("Released") }, []],
  ])("%s", (_, more, expected) => {
    const { tally, releases } = tallied();
    tally.written("n1", [change(more)]);
    expect(releases).toEqual(expected);
  });
});
