import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type RuleCounts, RuleTally } from "./tally.ts";
import { outcomeOf, type Stake } from "./testing/stakes.ts";

const RULES = ["cluster/a", "config/b", "folder/c"];

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
