import { expect, it } from "vitest";
import { Pace } from "./pace.ts";

it("lets a burst through at once, and then one at a time; ids have nothing to do with each other", () => {
  let nowMs = 1_000;
  const pace = new Pace({ monotonic: () => nowMs }, { everyMs: 6_000, burst: 3 });
  expect([1, 2, 3, 4].map(() => pace.take("a"))).toEqual([0, 0, 0, 6_000]);
  expect(pace.take("b")).toBe(0);
  nowMs += 5_999;
  expect(pace.take("a")).toBe(1);
  nowMs += 1;
  expect([pace.take("a"), pace.take("a")]).toEqual([0, 6_000]);
  nowMs += 60_000;
  expect([1, 2, 3, 4].map(() => pace.take("a"))).toEqual([0, 0, 0, 6_000]);
});

it("has those that wait for one rate wait longer than for one turn, and counts only what happens", () => {
  const pace = new Pace({ monotonic: () => 0 }, { everyMs: 10, burst: 2, leastWaitMs: 5_000 });
  expect([pace.wait("a"), pace.wait("a"), pace.wait("a")]).toEqual([0, 0, 0]);
  expect([pace.take("a"), pace.take("a"), pace.take("a"), pace.wait("a")]).toEqual([0, 0, 5_000, 5_000]);
});
