import { describe, expect, it } from "vitest";
import { isPositiveQuantity, isSameQuantity } from "./quantity.ts";

// What it is in tenths of billionths is told by the comparisons of labels, which order by it.
describe("a quantity", () => {
  it.each([
    ["1", true],
    ["1n", true],
    ["16Gi", true],
    ["0", false],
    ["0Gi", false],
    ["-1", false],
    ["", false],
    ["many", false],
  ])("%j is some: %s", (text, some) => {
    expect(isPositiveQuantity(text)).toBe(some);
  });

  // As the API server stores it in a pod template.
  it.each([
    ["1000m", "1", true],
    ["500u", "1m", true],
    ["0.0005", "1m", true],
    ["1500u", "2m", true],
    ["1n", "1m", true],
    ["32Mi", "33554432", true],
    ["1m", "2m", false],
    ["1001u", "1m", false],
    ["many", "many", false],
  ])("%j is the same as %j: %s", (a, b, same) => {
    expect(isSameQuantity(a, b)).toBe(same);
    expect(isSameQuantity(b, a)).toBe(same);
  });
});
