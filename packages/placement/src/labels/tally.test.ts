import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noMarks } from "../node/mark-set.ts";
import type { NodeOutcome } from "../node/observer.ts";
import { type RuleCounts, RuleTally } from "./tally.ts";

const RULES = ["cluster/a", "config/b", "folder/c"];

interface Stake {
  readonly rule: string;
  readonly matched: boolean;
  readonly labelled: boolean;
  readonly pending: boolean;
  readonly conflictsWith?: string;
}

function outcomeOf(stakes: readonly Stake[]): NodeOutcome {
  const policy = {
    sourcesRead: new Set<string>(),
    rules: new Set<string>(),
    declared: noMarks,
    allowedProtected: noMarks,
    exclusive: noMarks,
  };
  const outcomes = stakes
    .filter(({ matched }) => matched)
    .map(({ rule, conflictsWith }) => (conflictsWith === undefined ? { rule } : { rule, conflictsWith }));
  const decision = { marks: [], keep: new Map(), findings: [], outcomes };
  const recorded = ({ rule }: Stake) => ({ capability: "labels", rule, since: "", by: "berth" });
  return {
    contributions: [{ capability: "labels", policy, decision }],
    owned: new Map(
      stakes
        .filter(({ labelled }) => labelled)
        .map((stake) => [`label/${stake.rule}` as const, recorded(stake)]),
    ),
    changes: stakes
      .filter(({ pending }) => pending)
      .map(({ rule }) => ({
        id: `label/${rule}`,
        action: "remove",
        capability: "labels",
        rule,
        reason: "InputGone",
      })),
    withheld: new Map(
      stakes.filter(({ pending }) => pending).map(({ rule }) => [`label/${rule}`, "RemovalDelayed"]),
    ),
  };
}

/** The same, counted from scratch. */
function countAgain(nodes: ReadonlyMap<string, readonly Stake[]>, rule: string): RuleCounts {
  const of = (test: (stake: Stake) => boolean): string[] =>
    [...nodes]
      .flatMap(([name, stakes]) => (stakes.some((it) => it.rule === rule && test(it)) ? [name] : []))
      .sort();
  const matched = of((it) => it.matched);
  const conflicting = of((it) => it.matched && it.conflictsWith !== undefined);
  return {
    matched: matched.length,
    labelled: of((it) => it.labelled).length,
    pending: of((it) => it.pending).length,
    conflicting: conflicting.length,
    firstMatched: matched.slice(0, 5),
    firstConflicting: conflicting.slice(0, 5),
  };
}

const stake = fc.record(
  {
    rule: fc.constantFrom(...RULES),
    matched: fc.boolean(),
    labelled: fc.boolean(),
    pending: fc.boolean(),
    conflictsWith: fc.constantFrom("cluster/x", "cluster/y"),
  },
  { requiredKeys: ["rule", "matched", "labelled", "pending"] },
);
const steps = fc.array(
  fc.record({
    node: fc.integer({ min: 0, max: 12 }).map((at) => `n${at}`),
    stakes: fc.option(fc.uniqueArray(stake, { maxLength: 3, selector: ({ rule }) => rule })),
  }),
  { maxLength: 60 },
);

describe("the tally", () => {
  it("is what counting from scratch gives, after any history, and tells every change", () => {
    fc.assert(
      fc.property(steps, (history) => {
        const told = new Set<string>();
        const tally = new RuleTally({ onChange: (rule) => told.add(rule) });
        const nodes = new Map<string, readonly Stake[]>();
        for (const { node, stakes } of history) {
          const before = RULES.map((rule) => JSON.stringify(tally.counts(rule)));
          told.clear();
          if (stakes === null) {
            nodes.delete(node);
            tally.gone(node);
          } else {
            nodes.set(node, stakes);
            tally.decided(node, outcomeOf(stakes));
          }
          for (const [at, rule] of RULES.entries()) {
            const { conflictsWith: _, ...counts } = tally.counts(rule);
            const expected = rule.startsWith("folder/")
              ? countAgain(new Map(), rule)
              : countAgain(nodes, rule);
            expect(counts).toEqual(expected);
            expect(told.has(rule) || JSON.stringify(tally.counts(rule)) === before[at]).toBe(true);
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
