import * as fc from "fast-check";
import { expect, it } from "vitest";
import { type Stake, Tally } from "./tally.ts";

const PHASES = ["held", "open", "late"] as const;
type Phase = (typeof PHASES)[number];

const stake: fc.Arbitrary<Stake<Phase>> = fc.record(
  {
    rule: fc.constantFrom("a", "b"),
    phases: fc.uniqueArray(fc.constantFrom(...PHASES)),
    detail: fc.constantFrom("x", "y"),
  },
  { requiredKeys: ["rule", "phases"] },
);
const stakes = fc.uniqueArray(stake, { selector: ({ rule }) => rule });

it("counts what was put last of each key, and tells of each rule whose counts changed, and of no other", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom("n1", "n2", "n3"), stakes)), (puts) => {
      const changed = new Set<string>();
      const tally = new Tally<Phase>({ onChange: (rule) => void changed.add(rule) });
      const known = new Map<string, readonly Stake<Phase>[]>();
      const holding = (rule: string, phase: Phase): string[] =>
        [...known]
          .filter(([, all]) => all.some((it) => it.rule === rule && it.phases.includes(phase)))
          .map(([key]) => key)
          .toSorted();
      const detail = (key: string, rule: string): string | undefined =>
        known.get(key)?.find((it) => it.rule === rule)?.detail;
      for (const [key, next] of puts) {
        const look = (rule: string): string =>
          JSON.stringify([PHASES.map((phase) => holding(rule, phase)), detail(key, rule)]);
        const before = { a: look("a"), b: look("b") };
        changed.clear();
        tally.put(key, next);
        known.set(key, next);
        for (const rule of ["a", "b"] as const) {
          expect(changed.has(rule)).toBe(look(rule) !== before[rule]);
          expect(tally.stake(key, rule)?.detail).toBe(detail(key, rule));
          for (const phase of PHASES)
            expect([...tally.of(rule, phase)].toSorted()).toEqual(holding(rule, phase));
        }
        for (const phase of PHASES)
          expect(tally.total(phase)).toBe(new Set([...holding("a", phase), ...holding("b", phase)]).size);
      }
    }),
  );
});
