import { expect, it } from "vitest";
import { ScopeCount } from "./scope-count.ts";
import { aPolicy, single } from "./testing/lost.ts";

it("D-E15 counts pods again only when one has changed, at most every 10 s, or when all are judged anew", () => {
  let [nowMs, reads] = [0, 0];
  const pods = [single("a")];
  const count = new ScopeCount({
    pods: () => {
      reads += 1;
      return pods;
    },
    isIn: () => true,
    monotonic: () => nowMs,
  });
  const policy = aPolicy();
  const read = (): readonly number[] => [count.of(policy), reads];
  expect(read()).toEqual([1, 1]);
  nowMs = 100_000;
  expect(read()).toEqual([1, 1]);
  pods.push(single("b"));
  count.changed();
  expect(read()).toEqual([2, 2]);
  pods.push(single("c"));
  count.changed();
  nowMs += 9_999;
  expect(read()).toEqual([2, 2]);
  nowMs += 1;
  expect(read()).toEqual([3, 3]);
  count.clear();
  expect(read()).toEqual([3, 4]);
});
