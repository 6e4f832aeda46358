import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareResourceVersions, pathOf } from "./object.ts";

it.each([
  [{ namespace: "n", name: "a" }, "n/a"],
  [{ name: "a" }, "/a"],
  [undefined, "/"],
])("pathOf(%j) is %s", (of, path) => {
  expect(pathOf(of)).toBe(path);
});

describe("compareResourceVersions", () => {
  it("orders decimal integers of any length as integers", () => {
    const version = fc.bigInt({ min: 0n, max: 2n ** 80n });
    fc.assert(
      fc.property(version, version, (a, b) => {
        const order = compareResourceVersions(String(a), String(b)) ?? Number.NaN;
        expect(Math.sign(order)).toBe(a < b ? -1 : a > b ? 1 : 0);
      }),
    );
  });

  it("tells versions beyond 2^53 apart", () => {
    expect(compareResourceVersions("9007199254740993", "9007199254740992")).toBeGreaterThan(0);
  });

  it.each(["", "abc", "1.5", "-1", "1e3", " 1"])("does not compare %j", (other) => {
    expect(compareResourceVersions("1", other)).toBeUndefined();
    expect(compareResourceVersions(other, "1")).toBeUndefined();
  });
});
