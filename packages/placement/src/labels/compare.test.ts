import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { comparatorTo } from "./compare.ts";

const compareAs = (kind: "Quantity" | "Version", a: string, b: string): number | undefined =>
  comparatorTo(kind, b)?.(a);
const isComparable = (kind: "Quantity" | "Version", text: string): boolean =>
  comparatorTo(kind, text) !== undefined;

const quantity = (a: string, b: string) => compareAs("Quantity", a, b);
const version = (a: string, b: string) => Math.sign(compareAs("Version", a, b) ?? Number.NaN);

/** `1000m is 1, 5. is 5` */
const pairs = (text: string): string[][] =>
  text.split(/[,\n]/).flatMap((pair) => (pair.trim() === "" ? [] : [pair.trim().split(/ (?:is|>) /)]));

describe("quantities", () => {
  // As apimachinery v0.36 `resource.ParseQuantity` tells them.
  it.each(
    pairs(`
    1000m is 1, 0.5Gi is 536870912, .5 is 500m, 5. is 5, 1.Gi is 1Gi, +1 is 1, 000 is 0.00, -0 is 0,
    1E is 1000000000000000000, 1E3 is 1000, 1E+3 is 1k, 1e-3 is 1m, 1Ei is 1152921504606846976,
    3.7Mi is 3879731.2, 12P is 12e15, 1Pi is 1024Ti, 1M is 1000k, 1n is 0.000000001, 1u is 1000n
  `),
  )("%s is %s", (a = "", b = "") => {
    expect(quantity(a, b)).toBe(0);
    expect(quantity(b, a)).toBe(0);
  });

  it.each(
    pairs(`
    0.1n is 1n, -0.1n is -1n, 1.0000000001 is 1.000000001, -1.0000000001 is -1.000000001, 1e-10 is 1n,
    0.0000000001Ki is 103n, 0.0000000000000000001 is 1n
  `),
  )("rounds %s away from zero, to %s", (a = "", b = "") => {
    expect(quantity(a, b)).toBe(0);
  });

  it.each(
    pairs(`
    1Gi > 1G, 16Gi > 15.9Gi, 1 > 999m, 0 > -1, -1 > -2, 1E > 1P,
    9223372036854775809 > 9223372036854775808, 100 > 99
  `),
  )("%s is more than %s", (a = "", b = "") => {
    expect(quantity(a, b)).toBe(1);
    expect(quantity(b, a)).toBe(-1);
  });

  it.each([
    ..."| 1|1 |1\n|.|+|-|1e|1K|1ki|1mi|1kb|1.5.2|0x10|1e3k|1_000|١|1e31|1e-31|1e9999|NaN".split("|"),
    "1".repeat(65),
  ])("%j is none", (text) => {
    expect(isComparable("Quantity", text)).toBe(false);
    expect(quantity(text, "1")).toBeUndefined();
    expect(quantity("1", text)).toBeUndefined();
  });

  it("are ordered as the numbers they stand for", () => {
    const units = { m: 1, "": 1000, k: 1e6, Ki: 1024e3, M: 1e9, Mi: 1024 ** 2 * 1000 } as const;
    const some = fc.tuple(
      fc.integer({ min: -1000, max: 1000 }),
      fc.constantFrom(...(Object.keys(units) as (keyof typeof units)[])),
    );
    fc.assert(
      fc.property(some, some, ([a, unit], [b, other]) => {
        const expected = Math.sign(a * units[unit] - b * units[other]);
        expect(quantity(`${a}${unit}`, `${b}${other}`)).toBe(expected === 0 ? 0 : expected);
      }),
    );
  });
});

describe("versions", () => {
  it.each(
    pairs(`
    v1.36.3 is 1.36.3, 1.36 is v1.36.0, 6 is 6.0.0.0, v1.36.3+k3s1 is v1.36.3, 6.6.56+ is 6.6.56,
    v1.36.3-rc.1+abc is 1.36.3-rc.1, 1.0-rc01 is 1.0-rc1
  `),
  )("%s is %s", (a = "", b = "") => {
    expect(version(a, b)).toBe(0);
    expect(version(b, a)).toBe(0);
  });

  it.each(
    pairs(`
    v1.36.10 > v1.36.9, v1.36.3 > v1.4, 2 > 1.99.99, 5.15.1 > 5.15, 1.37.0 > 1.37.0-rc.1,
    1.37.0-rc.1 > 1.37.0-beta.3, 1.37.0-rc.10 > 1.37.0-rc.9, 1.37.0-rc10 > 1.37.0-rc9,
    1.37.0-alpha.1.12 > 1.37.0-alpha.1, 6.8.0 > 6.8.0-rc3, 6.8.0-rc3 > 6.7.99,
    v1.34.1-gke.100 > v1.34.1-rc.1, v1.34.1-gke.100 > v1.34.1-gke.99,
    5.15.0-102-generic > 5.15.0-91-generic, 5.14.0-427.13.1.el9_4.x86_64 > 5.14.0-362.8.1.el9_3.x86_64,
    v1.34.2-eks-0a1b2c > v1.34.1-eks-9f8e7d, 1.0-rc.99999999999999999999 > 1.0-rc.99999999999999999998
  `),
  )("%s is after %s", (a = "", b = "") => {
    expect(version(a, b)).toBe(1);
    expect(version(b, a)).toBe(-1);
  });

  it.each(
    pairs(`
    5.15.0-91-generic is 5.15, v1.34.1-gke.100 is v1.34.1, v1.34.1-eks-0a1b2c is 1.34.1,
    v1.36.3-k3s1 is v1.36.3, 5.14.0-427.13.1.el9_4.x86_64 is 5.14.0, 6.1.0-preempt-rt is 6.1,
    6.1.0-develop is 6.1
  `),
  )("the build %s is the release %s, and no prerelease of it", (a = "", b = "") => {
    expect(version(a, b)).toBe(0);
    expect(version(b, a)).toBe(0);
  });

  it.each(["", "v", "latest", "1.", ".1", "1..2", "1.2.3.4.5.6.7", "v1.36 ", "1.2\n", "Ubuntu 24.04", "1.x"])(
    "%j is none",
    (text) => {
      expect(isComparable("Version", text)).toBe(false);
      expect(compareAs("Version", text, "1")).toBeUndefined();
      expect(compareAs("Version", "1", text)).toBeUndefined();
    },
  );
});

describe("any text", () => {
  it("is compared or is not, quickly, and the other way round alike", () => {
    const text = fc.oneof(
      fc.string({ maxLength: 200 }),
      fc.stringMatching(/^[v+-]?\d{0,20}(\.\d{0,20}){0,3}([a-zA-Z]{0,2}|-[a-z0-9._-]{0,20})$/),
    );
    fc.assert(
      fc.property(fc.constantFrom("Quantity", "Version"), text, text, (kind, a, b) => {
        const there = compareAs(kind, a, b);
        const back = compareAs(kind, b, a);
        expect(Math.sign(there ?? 7)).toBe(there === undefined ? 1 : -Math.sign(back ?? 7) + 0);
        expect(compareAs(kind, a, a)).toBe(isComparable(kind, a) ? 0 : undefined);
      }),
    );
  });
});
