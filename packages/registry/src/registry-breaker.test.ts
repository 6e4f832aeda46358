import { describe, expect, it } from "vitest";
import { RegistryError, type RegistryFailureKind } from "./failure.ts";
import { type RegistryBreakerOptions, RegistryBreakers } from "./registry-breaker.ts";

const failure = (kind: RegistryFailureKind, retryAfterMs?: number): RegistryError =>
  new RegistryError(kind, kind, {
    registry: "a.io",
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });

function failing(
  times: number,
  options: RegistryBreakerOptions = {},
  kind: RegistryFailureKind = "unreachable",
): RegistryBreakers {
  const breakers = new RegistryBreakers(options);
  for (let time = 0; time < times; time += 1) breakers.settle("a.io", failure(kind), 0);
  return breakers;
}

describe("a registry that fails", () => {
  it("is asked after 4 failures in a row, and left alone for 30 s after 5", () => {
    expect(failing(4).admit("a.io", 0)).toEqual({ allowed: true });
    const breakers = failing(5);
    expect(breakers.admit("a.io", 0)).toEqual({ allowed: false, waitMs: 30_000, why: "failing" });
    expect(breakers.admit("a.io", 29_999)).toEqual({ allowed: false, waitMs: 1, why: "failing" });
    expect(breakers.admit("b.io", 0)).toEqual({ allowed: true });
  });

  it.each(["notFound", "unauthorized", "forbidden", "noPlatform", "malformed", undefined] as const)(
    "has answered when it says %s, which ends the row",
    (kind) => {
      const breakers = failing(4);
      breakers.settle("a.io", kind === undefined ? undefined : failure(kind), 0);
      breakers.settle("a.io", failure("serverError"), 0);
      expect(breakers.admit("a.io", 0)).toEqual({ allowed: true });
    },
  );

  it("an image that is malformed closes it for nobody, be there many", () => {
    expect(failing(100, {}, "malformed").admit("a.io", 0)).toEqual({ allowed: true });
  });

  it("is then asked once, whose failure opens it again, and whose answer closes it", () => {
    const breakers = failing(5);
    expect(breakers.check("a.io", 30_000)).toEqual({ allowed: true });
    expect(breakers.admit("a.io", 30_000)).toEqual({ allowed: true });
    expect(breakers.admit("a.io", 30_001)).toEqual({ allowed: false, waitMs: 1_000, why: "failing" });
    breakers.settle("a.io", failure("unreachable"), 40_000);
    expect(breakers.admit("a.io", 69_999)).toMatchObject({ allowed: false });
    expect(breakers.admit("a.io", 70_000)).toEqual({ allowed: true });
    breakers.settle("a.io", undefined, 70_001);
    expect(breakers.admit("a.io", 70_001)).toEqual({ allowed: true });
    expect(breakers.admit("a.io", 70_001)).toEqual({ allowed: true });
  });

  it("is asked by another when who probed gave up", () => {
    const breakers = failing(5);
    breakers.admit("a.io", 30_000);
    breakers.settle("a.io", failure("aborted"), 30_001);
    expect(breakers.admit("a.io", 30_001)).toEqual({ allowed: true });
  });

  it("rests no longer for failures of questions from before", () => {
    const breakers = failing(5);
    breakers.settle("a.io", failure("unreachable"), 20_000);
    expect(breakers.check("a.io", 30_000)).toEqual({ allowed: true });
  });

  it("is asked again at once when a question from before is answered", () => {
    const breakers = failing(5);
    breakers.settle("a.io", undefined, 1_000);
    expect(breakers.check("a.io", 1_000)).toEqual({ allowed: true });
  });
});

describe("a registry that limits", () => {
  it.each([
    [undefined, 30_000],
    [90_000, 90_000],
    [10 * 3_600_000, 3_600_000],
  ])("by %s ms is left alone for %i ms at the first word", (asks, restMs) => {
    const breakers = new RegistryBreakers();
    breakers.settle("a.io", failure("rateLimited", asks), 0);
    expect(breakers.admit("a.io", 0)).toEqual({ allowed: false, waitMs: restMs, why: "rateLimited" });
    expect(breakers.admit("a.io", restMs)).toEqual({ allowed: true });
  });

  it("is left alone that long, whatever becomes of questions from before", () => {
    const breakers = new RegistryBreakers();
    breakers.settle("a.io", failure("rateLimited", 90_000), 0);
    breakers.settle("a.io", undefined, 1);
    breakers.settle("a.io", failure("rateLimited", 10_000), 2);
    breakers.settle("a.io", failure("unreachable"), 3);
    expect(breakers.check("a.io", 89_999)).toMatchObject({ allowed: false, why: "rateLimited" });
  });
});

it("remembers as many registries as it may, and forgets the one wanted longest ago", () => {
  const breakers = failing(5, { maxRegistries: 2 });
  for (const registry of ["b.io", "c.io"]) breakers.settle(registry, failure("rateLimited"), 0);
  expect(breakers.check("a.io", 0)).toEqual({ allowed: true });
  expect(breakers.check("b.io", 0)).toMatchObject({ allowed: false });
  expect(breakers.check("c.io", 0)).toMatchObject({ allowed: false });
});
