import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CONTESTED_MS, contestOf, noContest, noteGiven, REVERT_WINDOW_MS, REVERTS } from "./contest.ts";
import { givenBy } from "./intent.ts";

const MINUTE = 60_000;
const GIVEN = ["a=b"];

/** Gives it at each of these minutes if it may be. @returns when it was given, held, and held from then on. */
function reverted(contest: ReturnType<typeof noContest>, minutes: readonly number[], wish = GIVEN) {
  const told = { given: [] as number[], held: [] as number[], started: [] as number[] };
  for (const minute of minutes) {
    const found = contestOf(contest, wish, minute * MINUTE);
    if (found === undefined) noteGiven(contest, wish, minute * MINUTE);
    (found === undefined ? told.given : told.held).push(minute);
    if (found?.started === true) told.started.push(minute);
  }
  return told;
}

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

describe("what is given and taken off again", () => {
  it.each([
    ["is put back three times within ten minutes", [0, 1, 4, 6, 7], [0, 1, 4]],
    ["is no contest when it happens less often", [0, 6, 12, 18, 24, 30], [0, 6, 12, 18, 24, 30]],
    [
      "is put back ever more rarely when it is reverted every three minutes, as by Argo CD",
      Array.from({ length: 20 }, (_, at) => at * 3),
      [0, 3, 6, 15, 30, 54],
    ],
    ["is forgotten after ten quiet minutes", [0, 1, 2, 3, 8, 19, 20, 21, 22], [0, 1, 2, 8, 19, 20, 21]],
  ])("%s", (_, minutes, given) => {
    expect(reverted(noContest(), minutes).given).toEqual(given);
  });

  it("is left alone for five minutes, then for twice as long each time, up to an hour", () => {
    const contest = noContest();
    let now = 3;
    reverted(contest, [0, 1, 2]);
    for (const minutes of [5, 10, 20, 40, 60, 60]) {
      expect(contestOf(contest, GIVEN, now * MINUTE)?.leftMs).toBe(minutes * MINUTE);
      now += minutes;
      expect(reverted(contest, [now - 0.1, now])).toMatchObject({ held: [now - 0.1], started: [] });
    }
  });

  it("counts only what was given before: another wish begins anew, and takes no more memory with each time", () => {
    const contest = noContest();
    expect(reverted(contest, [0, 1, 2, 3]).started).toEqual([3]);
    expect(reverted(contest, [4, 5, 6, 7], ["a=c"])).toMatchObject({ held: [7], started: [7] });
    noteGiven(contest, ["a=c", "d"], 8);
    expect([[...contest.given], contest.writes.length]).toEqual([["a=c", "d"], 3]);
  });

  it("is written no more within any ten minutes than three times and once for each hold that ended in them", () => {
    fc.assert(
      fc.property(gaps, (times) => {
        const contest = noContest();
        const written: number[] = [];
        const ends: number[] = [];
        let now = 0;
        for (const gap of times) {
          expect(contestOf(contest, ["other"], now)).toBeUndefined();
          const found = contestOf(contest, GIVEN, now);
          const isHeld = now < (ends.at(-1) ?? 0);
          // Within a hold it is never started anew, and nothing is let through.
          expect(found?.started ?? false).toBe(found !== undefined && !isHeld);
          expect(isHeld && found === undefined).toBe(false);
          if (found === undefined) {
            noteGiven(contest, GIVEN, now);
            written.push(now);
          } else if (found.started) ends.push(now + found.leftMs);
          const since = now - REVERT_WINDOW_MS;
          const tries = ends.filter((at) => at > since && at <= now).length;
          expect(written.filter((at) => at > since).length).toBeLessThanOrEqual(REVERTS + tries);
          now += gap;
        }
        const quiet = Math.max(now, contest.heldUntil ?? now) + REVERT_WINDOW_MS;
        expect(contestOf(contest, GIVEN, quiet)).toBeUndefined();
      }),
    );
  });
});

it("what Berth gives takes little memory, however large the body is", () => {
  const textOf = (value: string): string => {
    const body = { metadata: { annotations: { value } } };
    return givenBy({ do: "create", body, reason: "", message: "" }).join();
  };
  const large = "x".repeat(100_000);
  expect(textOf("small")).toBe('{"metadata":{"annotations":{"value":"small"}}}');
  expect(textOf(large).length).toBeLessThan(100);
  expect(textOf(large)).toBe(textOf(large));
  expect(textOf(large)).not.toBe(textOf(`${large}x`));
});
