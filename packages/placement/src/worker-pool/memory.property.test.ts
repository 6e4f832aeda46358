import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CONTESTED_MS, REVERTS, WINDOW_MS } from "../node/fights.ts";
import { contestOf, createPoolMemory, isAwaited, noteApplied } from "./memory.ts";

const gaps = fc.array(
  fc.oneof(
    fc.integer({ min: 1, max: 2_000 }),
    fc.integer({ min: 2_000, max: 120_000 }),
    fc.constantFrom(WINDOW_MS - 1, WINDOW_MS, CONTESTED_MS - 1, CONTESTED_MS, CONTESTED_MS + 1),
  ),
  { maxLength: 60 },
);

const applied = (at: number) => ({ text: "wish", resourceVersion: String(at), at, isSeen: false });

describe("contestOf", () => {
  it("lets at most three reverts be undone within any minute, and none while it holds", () => {
    fc.assert(
      fc.property(gaps, (times) => {
        const memory = createPoolMemory("u");
        noteApplied(memory, applied(0), { isRevert: false });
        const undone: number[] = [];
        let now = 0;
        let heldUntil = 0;
        for (const gap of times) {
          now += gap;
          const contest = contestOf(memory, "wish", now);
          const isHeld = now < heldUntil;
          // Within a hold it is never started anew, and nothing is let through.
          expect(contest?.started ?? false).toBe(contest !== undefined && !isHeld);
          expect(isHeld && contest === undefined).toBe(false);
          if (contest !== undefined) {
            heldUntil = now + contest.leftMs;
            continue;
          }
          noteApplied(memory, applied(now), { isRevert: true });
          undone.push(now);
          expect(undone.filter((at) => now - at < WINDOW_MS).length).toBeLessThanOrEqual(REVERTS);
        }
      }),
    );
  });

  it("never holds another wish, nor what stood for five minutes", () => {
    fc.assert(
      fc.property(gaps, (times) => {
        const memory = createPoolMemory("u");
        let now = 0;
        for (const gap of times) {
          if (contestOf(memory, "wish", now) === undefined) {
            noteApplied(memory, applied(now), { isRevert: true });
          }
          expect(contestOf(memory, "another", now)).toBeUndefined();
          now += gap;
        }
        const quiet = Math.max(now, memory.heldUntil ?? now) + CONTESTED_MS;
        expect(contestOf(memory, "wish", quiet)).toBeUndefined();
      }),
    );
  });
});

describe("isAwaited", () => {
  it("holds from an apply until its version or a newer one was shown, and not again after that", () => {
    const version = fc.option(fc.integer({ min: 1, max: 20 }).map(String), { nil: undefined });
    fc.assert(
      fc.property(fc.array(version, { maxLength: 20 }), (shown) => {
        const memory = createPoolMemory("u");
        expect(isAwaited(memory, undefined)).toBe(false);
        noteApplied(memory, applied(10), { isRevert: false });
        let isSeen = false;
        for (const seen of shown) {
          isSeen ||= seen !== undefined && Number(seen) >= 10;
          expect(isAwaited(memory, seen)).toBe(!isSeen);
        }
      }),
    );
  });
});
