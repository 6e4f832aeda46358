import { describe, expect, it } from "vitest";
import { formatPlacement, freeStart, hasSlot, parsePlacement, targetsOf } from "./placement.ts";

const a = { cell: "dfw-01", uid: "u1", epoch: 2, start: 1000, last: 3 };
const next = { cell: "dfw-02", uid: "u2", epoch: 3, start: 2000 };

describe("the annotation of a placement", () => {
  it("says what was written to it", () => {
    for (const placement of [a, { ...a, next }, { ...a, lost: [0, 3000] }])
      expect(parsePlacement(formatPlacement(placement))).toMatchObject(placement);
    expect(formatPlacement(a)).toBe('{"v":1,"cell":"dfw-01","uid":"u1","epoch":2,"start":1000,"last":3}');
  });

  it.each([
    ["there is none", undefined],
    ["it is no JSON", "{"],
    ["it is of another version", '{"v":2,"cell":"c","uid":"u","epoch":1,"start":0,"last":1}'],
    ["it names no cell", '{"v":1,"cell":"","uid":"u","epoch":1,"start":0,"last":1}'],
    ["its epoch was never used", '{"v":1,"cell":"c","uid":"u","epoch":2,"start":0,"last":1}'],
    ["that of a move was never used", formatPlacement({ ...a, last: 2, next })],
  ])("counts for nothing when %s", (_, text) => expect(parsePlacement(text)).toBeUndefined());

  it("names the cell that has it, and the next one", () => {
    expect(targetsOf({ ...a, next }).map(({ uid }) => uid)).toEqual(["u1", "u2"]);
    expect(targetsOf(a)).toHaveLength(1);
    expect(targetsOf(undefined)).toEqual([]);
  });
});

it.each<[readonly number[], number | undefined]>([
  [[], 0],
  [[0], 1000],
  [[1000, 0, 3000], 2000],
  [[17], 1000],
  [[0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000], undefined],
])("the free start beside %j is %o", (held, start) => expect(freeStart(held)).toBe(start));

it("a start has a thousand ordinals", () => {
  expect([999, 1000, 1999, 2000].map((ordinal) => hasSlot(a, ordinal))).toEqual([false, true, true, false]);
});
