import { createVirtualClock } from "@berth/runtime";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { BoundedMap } from "./bounded-map.ts";

describe("BoundedMap", () => {
  it("forgets what is old", async () => {
    const clock = createVirtualClock();
    const cache = new BoundedMap<string>({ expiry: { clock, ttlMs: 100 }, maxEntries: 9, maxWeight: 9 });
    cache.set("a", "A", 1);
    await clock.advance(99);
    expect(cache.get("a")).toBe("A");
    await clock.advance(1);
    expect(cache.get("a")).toBeUndefined();
    expect(cache.size).toBe(0);
  });

  it("lets what was set first go first, by number and by weight", () => {
    const clock = createVirtualClock();
    const cache = new BoundedMap<string>({ expiry: { clock, ttlMs: 100 }, maxEntries: 2, maxWeight: 10 });
    cache.set("a", "A", 1);
    cache.set("b", "B", 1);
    cache.set("a", "A2", 1);
    cache.set("c", "C", 1);
    expect([cache.get("a"), cache.get("b"), cache.get("c")]).toEqual(["A2", undefined, "C"]);
    cache.set("d", "D", 10);
    expect([cache.get("a"), cache.get("c"), cache.get("d")]).toEqual([undefined, undefined, "D"]);
    cache.set("e", "E", 11);
    expect([cache.get("d"), cache.get("e")]).toEqual(["D", undefined]);
  });

  const run = seededRun(200, process.env);
  it(
    `stays within its bounds, and answers with what was set last or not at all (${run.name})`,
    run.options,
    async () => {
      const step = fc.record({
        key: fc.constantFrom("a", "b", "c", "d"),
        weight: fc.integer({ min: 0, max: 6 }),
        waitMs: fc.integer({ min: 0, max: 40 }),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
          const clock = createVirtualClock();
          const cache = new BoundedMap<number>({
            expiry: { clock, ttlMs: 100 },
            maxEntries: 3,
            maxWeight: 10,
          });
          const last = new Map<string, { at: number; untilMs: number; weight: number }>();
          for (const [at, { key, weight, waitMs }] of steps.entries()) {
            await clock.advance(waitMs);
            cache.set(key, at, weight);
            last.set(key, { at, untilMs: clock.monotonic() + 100, weight });
            const held = [...last].filter(([name]) => cache.get(name) !== undefined);
            for (const [name, one] of held) {
              expect(cache.get(name)).toBe(one.at);
              expect(clock.monotonic()).toBeLessThan(one.untilMs);
            }
            expect(cache.size).toBeLessThanOrEqual(3);
            expect(held.reduce((sum, [, one]) => sum + one.weight, 0)).toBeLessThanOrEqual(10);
            expect(cache.get(key)).toBe(at);
          }
        }),
        run.parameters,
      );
    },
  );
});
