import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noMarks } from "../node/mark-set.ts";
import type { NodeOutcome } from "../node/observer.ts";
import type { FootprintPhase } from "./capability.ts";
import { type FootprintCounts, FootprintTally } from "./tally.ts";

/** One footprint on one node. */
interface Said {
  readonly phase: Exclude<FootprintPhase, "Foreign">;
  readonly isLabelled?: boolean;
  readonly isForeign?: boolean;
  readonly claims?: number;
}

type Saids = Readonly<Record<string, Said>>;

function outcomeOf(saids: Saids): NodeOutcome {
  const none = new Set<string>();
  const policy = {
    sourcesRead: none,
    rules: none,
    declared: noMarks,
    allowedProtected: noMarks,
    exclusive: noMarks,
  };
  const phases = Object.entries(saids).map(([rule, { phase, isLabelled }]) =>
    isLabelled ? { rule, phase, place: "label/x" as const } : { rule, phase },
  );
  const foreign = Object.entries(saids).flatMap(([rule, { isForeign }]) =>
    isForeign ? [{ rule, phase: "Foreign" }] : [],
  );
  const outcomes = [...foreign, ...phases];
  const marks = Object.entries(saids).flatMap(([rule, { claims = 0 }]) =>
    [
      `label/x` as const,
      ...Array.from({ length: claims }, (_, at) => `annotation/${rule}.${at}` as const),
    ].map((id) => ({ id, value: "", rule, reason: "FootprintNeeded", foreign: "leave" }) as const),
  );
  const decision = { marks, keep: new Map(), findings: [], outcomes };
  const others = {
    capability: "labels",
    policy,
    decision: { ...decision, outcomes: [{ rule: "folder/x" }] },
  };
  const contributions = [others, { capability: "footprint", policy, decision }];
  return { contributions, owned: new Map(), changes: [], withheld: new Map() };
}

function tallied() {
  const asked: string[] = [];
  const clock = { now: 0 };
  const tally = new FootprintTally({
    onChange: (rule) => void asked.push(rule),
    monotonic: () => clock.now,
  });
  return {
    tally,
    asked,
    clock,
    decided: (name: string, saids: Saids) => tally.decided(name, outcomeOf(saids)),
  };
}

const none: FootprintCounts = { labelled: 0, needed: 0, pending: 0, unknown: 0, claims: 0, foreign: 0 };
const RULE = "cluster/a";

describe("counting nodes", () => {
  it("tells of each phase, and of labels and claims", () => {
    const { tally, decided } = tallied();
    decided("n1", { [RULE]: { phase: "Needed", isLabelled: true, claims: 2 } });
    decided("n2", { [RULE]: { phase: "Pending", claims: 1 } });
    decided("n3", { [RULE]: { phase: "Idle", isLabelled: true, isForeign: true } });
    decided("n4", { [RULE]: { phase: "Unknown" } });
    decided("n5", { [RULE]: { phase: "Idle" } });
    decided("n6", { "cluster/b": { phase: "Needed", isLabelled: true } });
    expect(tally.counts(RULE)).toEqual({
      labelled: 2,
      needed: 2,
      pending: 1,
      unknown: 1,
      claims: 3,
      foreign: 1,
    });
    expect(tally.total).toEqual({ labelled: 3, needed: 3, pending: 1, unknown: 1, claims: 3, foreign: 1 });
    expect(tally.nodes(RULE, "Pending")).toEqual(["n2"]);
    expect(tally.nodes("cluster/c", "Pending")).toEqual([]);
  });

  it("tells for how long a node has not been known, whatever else is said of it", () => {
    const { decided, tally, clock } = tallied();
    expect(tally.unknownMs(RULE)).toBe(0);
    decided("n1", { [RULE]: { phase: "Unknown" } });
    clock.now = 5;
    decided("n1", { [RULE]: { phase: "Unknown", claims: 1 } });
    decided("n2", { [RULE]: { phase: "Unknown" } });
    clock.now = 7;
    expect(tally.unknownMs(RULE)).toBe(7);
    decided("n1", { [RULE]: { phase: "Needed" } });
    expect(tally.unknownMs(RULE)).toBe(2);
    decided("n2", { [RULE]: { phase: "Idle" } });
    expect(tally.unknownMs(RULE)).toBe(0);
  });

  it("tells of a change once, and of nothing where nothing has changed", () => {
    const { asked, decided, tally } = tallied();
    decided("n1", { [RULE]: { phase: "Idle" } });
    expect(asked).toEqual([]);
    for (const claims of [1, 1, 2]) decided("n1", { [RULE]: { phase: "Needed", claims } });
    expect(asked).toEqual([RULE, RULE]);
    tally.gone("n1");
    tally.gone("n1");
    expect(asked).toEqual([RULE, RULE, RULE]);
    tally.decided("n1", { contributions: [] });
    expect(tally.counts(RULE)).toEqual(none);
  });

  it("counts what was said last of each node, in whatever order", () => {
    const said = fc.record({
      phase: fc.constantFrom<Said["phase"]>("Needed", "Pending", "Idle", "Unknown", "Excluded"),
      isLabelled: fc.boolean(),
      isForeign: fc.boolean(),
      claims: fc.nat(2),
    });
    const step = fc.tuple(fc.constantFrom("n1", "n2", "n3"), fc.option(said));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const { tally, decided } = tallied();
        const last = new Map<string, Said>();
        for (const [name, said] of steps) {
          if (said === null) tally.gone(name);
          else decided(name, { [RULE]: said });
          if (said === null) last.delete(name);
          else last.set(name, said);
        }
        const count = (of: (said: Said) => boolean) => [...last.values()].filter(of).length;
        const isNeeded = ({ phase }: Said) => phase === "Needed" || phase === "Pending";
        const isSeen = (it: Said) => it.phase !== "Idle" || it.isLabelled === true || it.isForeign === true;
        expect(tally.counts(RULE)).toEqual({
          labelled: count(({ isLabelled }) => isLabelled === true),
          needed: count(isNeeded),
          pending: count(({ phase }) => phase === "Pending"),
          unknown: count(({ phase }) => phase === "Unknown"),
          claims: [...last.values()].filter(isSeen).reduce((sum, { claims = 0 }) => sum + claims, 0),
          foreign: count(({ isForeign }) => isForeign === true),
        });
      }),
    );
  });
});
