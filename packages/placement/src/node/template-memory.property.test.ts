import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CONTESTED_MS, REVERTS } from "./fights.ts";
import { contestOf, createTemplateMemory, noteWritten, REVERT_WINDOW_MS } from "./template-memory.ts";

const GIVEN = [{ key: "a", value: "b" }];

/** Between two reverts, ms: of something quick, of something that looks every few minutes, and about the bounds. */
const gaps = fc.array(
  fc.oneof(
    fc.integer({ min: 1, max: 2_000 }),
    fc.integer({ min: 2_000, max: 400_000 }),
    fc.constantFrom(180_000, CONTESTED_MS - 1, CONTESTED_MS, CONTESTED_MS + 1),
    fc.constantFrom(REVERT_WINDOW_MS - 1, REVERT_WINDOW_MS, REVERT_WINDOW_MS + 1),
  ),
  { maxLength: 60 },
);

describe("contestOf", () => {
  it("lets no more be written within any ten minutes than three times and once for each hold that ended in them", () => {
    fc.assert(
      fc.property(gaps, (times) => {
        const memory = createTemplateMemory("u");
        const written: number[] = [];
        const ends: number[] = [];
        let now = 0;
        for (const gap of times) {
          const contest = contestOf(memory, GIVEN, now);
          const isHeld = now < (ends.at(-1) ?? 0);
          // Within a hold it is never started anew, and nothing is let through.
          expect(contest?.started ?? false).toBe(contest !== undefined && !isHeld);
          expect(isHeld && contest === undefined).toBe(false);
          if (contest === undefined) {
            noteWritten(memory, { from: "1", to: "2", given: GIVEN, nowMs: now });
            written.push(now);
          } else if (contest.started) ends.push(now + contest.leftMs);
          const since = now - REVERT_WINDOW_MS;
          const tries = ends.filter((at) => at > since && at <= now).length;
          expect(written.filter((at) => at > since).length).toBeLessThanOrEqual(REVERTS + tries);
          now += gap;
        }
      }),
    );
  });

  it("never holds another wish, nor what stood for ten minutes", () => {
    fc.assert(
      fc.property(gaps, (times) => {
        const memory = createTemplateMemory("u");
        let now = 0;
        for (const gap of times) {
          if (contestOf(memory, GIVEN, now) === undefined)
            noteWritten(memory, { from: "1", to: "2", given: GIVEN, nowMs: now });
          expect(contestOf(memory, [{ key: "a", value: "c" }], now)).toBeUndefined();
          now += gap;
        }
        const quiet = Math.max(now, memory.heldUntil ?? now) + REVERT_WINDOW_MS;
        expect(contestOf(memory, GIVEN, quiet)).toBeUndefined();
      }),
    );
  });
});
