import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { orderKeys } from "./cycles.ts";

const key = fc.constantFrom("a", "b", "c", "d", "e", "__proto__", "constructor");
const graph = fc
  .array(fc.tuple(key, fc.array(fc.oneof(key, fc.constant("outside")), { maxLength: 4 })), { maxLength: 8 })
  .map((entries) => new Map(entries));

/** What a key depends on, with any number of steps between. */
function reach(inputs: ReadonlyMap<string, readonly string[]>, from: string): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [...(inputs.get(from) ?? [])];
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    if (found.has(key) || !inputs.has(key)) continue;
    found.add(key);
    open.push(...(inputs.get(key) ?? []));
  }
  return found;
}

describe("the order of keys", () => {
  it("puts every key after all that it depends on, and on one rank those that depend on each other", () => {
    fc.assert(
      fc.property(graph, (inputs) => {
        const { rank, circular } = orderKeys(inputs);
        expect([...rank.keys()].sort()).toEqual([...inputs.keys()].sort());
        for (const [key, own] of rank) {
          const below = reach(inputs, key);
          expect(circular.has(own)).toBe(below.has(key));
          for (const [other, its] of rank) {
            if (other === key) continue;
            const mutual = below.has(other) && reach(inputs, other).has(key);
            expect(its === own).toBe(mutual);
            expect(below.has(other) && !mutual ? its < own : true).toBe(true);
          }
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("is found for a chain of any length without recursion", () => {
    const length = 50_000;
    const chain = new Map(Array.from({ length }, (_, i) => [`k${i}`, [`k${i + 1}`]] as const));
    const { rank, circular } = orderKeys(chain);
    expect(rank.get("k0")).toBe(length);
    expect(circular.size).toBe(0);
  });
});
