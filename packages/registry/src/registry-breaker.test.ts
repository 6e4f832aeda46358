import { describe, expect, it } from "vitest";
import { RegistryError, type RegistryFailureKind } from "./failure.ts";
import { type RegistryAsker, RegistryBreakers } from "./registry-breaker.ts";

const failure = (kind: RegistryFailureKind, retryAfterMs?: number): RegistryError =>
  new RegistryError(kind, kind, { registry: "a.io", ...(retryAfterMs !== undefined && { retryAfterMs }) });

const asker = (registry: string, namespace = "one", credential = "none"): RegistryAsker => ({
  registry,
  namespace,
  credential,
});
const [A, B] = [asker("a.io"), asker("b.io")];

function failing(times: number): RegistryBreakers {
  const breakers = new RegistryBreakers({});
  for (let time = 0; time < times; time += 1)
    breakers.settle(asker("a.io", time % 2 ? "one" : "two"), failure("unreachable"), 0);
  return breakers;
}

describe("a registry that fails", () => {
  it("is asked after 4 failures in a row, and left alone for 30 s after 5", () => {
    expect(failing(4).admit(A, 0)).toEqual({ allowed: true });
    const breakers = failing(5);
    expect(breakers.admit(A, 0)).toEqual({ allowed: false, waitMs: 30_000, why: "failing" });
    expect(breakers.admit(A, 29_999)).toEqual({ allowed: false, waitMs: 1, why: "failing" });
    expect(breakers.admit(B, 0)).toEqual({ allowed: true });
  });

  it.each(["notFound", "unauthorized", "forbidden", "noPlatform", "malformed", undefined] as const)(
    "has answered when it says %s, which ends the row",
    (kind) => {
      const breakers = failing(4);
      breakers.settle(A, kind === undefined ? undefined : failure(kind), 0);
      breakers.settle(A, failure("serverError"), 0);
      expect(breakers.admit(A, 0)).toEqual({ allowed: true });
    },
  );

  it("is then asked once, whose failure opens it again, and whose answer closes it", () => {
    const breakers = failing(5);
    expect(breakers.check("a.io", 30_000)).toEqual({ allowed: true });
    expect(breakers.admit(A, 30_000)).toEqual({ allowed: true });
    expect(breakers.admit(A, 30_001)).toEqual({ allowed: false, waitMs: 1_000, why: "failing" });
    breakers.settle(A, failure("unreachable"), 40_000);
    expect(breakers.admit(A, 69_999)).toMatchObject({ allowed: false });
    expect(breakers.admit(A, 70_000)).toEqual({ allowed: true });
    breakers.settle(A, undefined, 70_001);
    expect(breakers.admit(A, 70_001)).toEqual({ allowed: true });
    expect(breakers.admit(A, 70_001)).toEqual({ allowed: true });
  });

  it("is asked by another when who probed gave up", () => {
    const breakers = failing(5);
    breakers.admit(A, 30_000);
    breakers.settle(A, failure("aborted"), 30_001);
    expect(breakers.admit(A, 30_001)).toEqual({ allowed: true });
  });

  it("rests no longer for failures of questions from before", () => {
    const breakers = failing(5);
    breakers.settle(A, failure("unreachable"), 20_000);
    expect(breakers.check("a.io", 30_000)).toEqual({ allowed: true });
  });

  it("is asked again at once when a question from before is answered", () => {
    const breakers = failing(5);
    breakers.settle(A, undefined, 1_000);
    expect(breakers.check("a.io", 1_000)).toEqual({ allowed: true });
  });
});

it.each([
  [undefined, 30_000],
  [90_000, 90_000],
  [10 * 3_600_000, 3_600_000],
])("a registry that limits by %s ms is left alone for %i ms at the first word", (asks, restMs) => {
  const breakers = new RegistryBreakers();
  breakers.settle(A, failure("rateLimited", asks), 0);
  expect(breakers.admit(A, 0)).toEqual({ allowed: false, waitMs: restMs, why: "rateLimited" });
  expect(breakers.admit(A, restMs)).toEqual({ allowed: true });
});

it("a registry that limits is left alone that long, whatever becomes of questions from before", () => {
  const breakers = new RegistryBreakers();
  breakers.settle(A, failure("rateLimited", 90_000), 0);
  breakers.settle(A, undefined, 1);
  breakers.settle(A, failure("rateLimited", 10_000), 2);
  breakers.settle(A, failure("unreachable"), 3);
  expect(breakers.admit(A, 89_999)).toMatchObject({ allowed: false, why: "rateLimited" });
});

it("remembers as many registries as it may, and forgets the one wanted longest ago", () => {
  const breakers = new RegistryBreakers({ failures: 1, maxRegistries: 2 });
  for (const registry of ["a.io", "b.io", "c.io"]) {
    for (const namespace of ["one", "two"])
      breakers.settle(asker(registry, namespace), failure("unreachable"), 0);
  }
  expect(breakers.admit(A, 0)).toEqual({ allowed: true });
  expect(breakers.admit(B, 0)).toMatchObject({ allowed: false });
  expect(breakers.admit(asker("c.io"), 0)).toMatchObject({ allowed: false });
});

describe("S-3 a registry is closed for all", () => {
  it("by no number of failures that one namespace alone has seen, and by those of two", () => {
    const breakers = new RegistryBreakers();
    for (let time = 0; time < 100; time += 1) breakers.settle(A, failure("unreachable"), 0);
    expect(breakers.admit(A, 0)).toEqual({ allowed: true });
    breakers.settle(asker("a.io", "two"), failure("unreachable"), 0);
    expect(breakers.admit(A, 0)).toMatchObject({ allowed: false });
  });

  it("by no 5xx: it may be of one path, whose owner would close the registry for all others", () => {
    const breakers = new RegistryBreakers();
    for (let time = 0; time < 100; time += 1)
      for (const namespace of ["one", "two"])
        breakers.settle(asker("a.io", namespace), failure("serverError"), time);
    expect(breakers.admit(A, 100)).toEqual({ allowed: true });
  });

  it("by no failure of another server that it led to", () => {
    const breakers = new RegistryBreakers({ failures: 1 });
    const error = new RegistryError("unreachable", "", { registry: "a.io", elsewhere: true });
    for (const namespace of ["one", "two"]) breakers.settle(asker("a.io", namespace), error, 0);
    expect(breakers.admit(A, 0)).toEqual({ allowed: true });
  });

  it("by no limit: only who was limited waits", () => {
    const breakers = new RegistryBreakers();
    breakers.settle(A, failure("rateLimited", 4_159_000), 0);
    expect(breakers.admit(A, 0)).toMatchObject({ allowed: false, why: "rateLimited" });
    for (const other of [asker("a.io", "two"), asker("a.io", "one", "other"), B])
      expect(breakers.admit(other, 0)).toEqual({ allowed: true });
  });
});
