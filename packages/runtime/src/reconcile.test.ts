import { expect, it } from "vitest";
import { earliest } from "./reconcile.ts";

it.each([
  [[1000, 5000], 1000],
  [[undefined, 5000], 5000],
  [[3000, undefined, 1000], 1000],
  [[undefined, undefined], undefined],
  [[], undefined],
])("the earliest of %j is %s", (waitsMs, soonest) => {
  expect(earliest(...waitsMs)).toBe(soonest);
});
