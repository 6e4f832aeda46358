import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backoffDelay, KeyedBackoff, reconnectDelay } from "./backoff.ts";

const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe("backoffDelay", () => {
  it("doubles from half the base and stops at the cap", () => {
    const least = { random: () => 0 };
    expect([1, 2, 3, 4].map((n) => backoffDelay(n, least))).toEqual([25, 50, 100, 200]);
    expect(backoffDelay(14, least)).toBe(150_000);
    expect(backoffDelay(5_000, { random: () => 0.5 })).toBe(225_000);
  });

  it("never waits less than after the failure before, below the cap, whatever the jitter", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), unit, unit, (failures, a, b) => {
        const before = backoffDelay(failures, { random: () => a });
        expect(backoffDelay(failures + 1, { random: () => b })).toBeGreaterThanOrEqual(before);
      }),
    );
  });

  it("refuses bounds that make no sense", () => {
    expect(() => backoffDelay(1, { baseMs: 0 })).toThrow(RangeError);
    expect(() => backoffDelay(1, { baseMs: 10, capMs: 5 })).toThrow(RangeError);
    expect(() => new KeyedBackoff({ baseMs: Number.NaN })).toThrow(RangeError);
  });
});

describe("KeyedBackoff", () => {
  it("remembers a bounded number of keys, forgetting the one that failed longest ago", () => {
    const backoff = new KeyedBackoff({ maxKeys: 2 });
    for (const key of ["a", "b", "a", "c"]) backoff.next(key);
    expect(backoff.size).toBe(2);
    expect([backoff.failures("a"), backoff.failures("b"), backoff.failures("c")]).toEqual([2, 0, 1]);
  });
});

it("reconnectDelay stays between the base and the cap, and under three times the wait before", () => {
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 40 }), (randoms) => {
      let previous: number | undefined;
      for (const value of randoms) {
        const delay = reconnectDelay(previous, { random: () => value });
        expect(delay).toBeGreaterThanOrEqual(200);
        expect(delay).toBeLessThanOrEqual(Math.min(30_000, 3 * (previous ?? 200)));
        previous = delay;
      }
    }),
  );
});
