import type { Condition } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type DesiredCondition, isConditionTrue, mergeConditions, withoutConditions } from "./conditions.ts";

const then = Date.UTC(2026, 0, 1);
const now = then + 60_000;
const desired: DesiredCondition = {
  type: "Ready",
  status: "True",
  reason: "AllReady",
  message: "ok",
  observedGeneration: 2,
};
const ready: Condition = { ...desired, lastTransitionTime: "2026-01-01T00:00:00Z" };

describe("mergeConditions", () => {
  it("adds a condition with the time of now, in order of type", () => {
    const other: Condition = { ...ready, type: "Zeta" };
    expect(mergeConditions([other], [desired], now)).toEqual([
      { ...ready, lastTransitionTime: "2026-01-01T00:01:00Z" },
      other,
    ]);
  });

  it("returns the very same list when nothing changes, in whatever order it is", () => {
    const current = [{ ...ready, type: "Zeta" }, ready];
    expect(mergeConditions(current, [desired], now)).toBe(current);
  });

  it("keeps the transition time while the status stays, and moves it when the status changes", () => {
    const reworded = mergeConditions(
      [ready],
      [{ ...desired, reason: "Other", message: "m", observedGeneration: 3 }],
      now,
    );
    expect(reworded).toEqual([{ ...ready, reason: "Other", message: "m", observedGeneration: 3 }]);
    const flipped = mergeConditions([ready], [{ ...desired, status: "False" }], now);
    expect(flipped[0]?.lastTransitionTime).toBe("2026-01-01T00:01:00Z");
  });

  it("does not let a verdict on an older generation overwrite a newer one", () => {
    const current = [ready];
    expect(mergeConditions(current, [{ ...desired, status: "False", observedGeneration: 1 }], now)).toBe(
      current,
    );
  });

  it("keeps fields it does not know", () => {
    const current = [{ ...ready, severity: "low" }];
    expect(mergeConditions(current, [{ ...desired, message: "new" }], now)[0]).toMatchObject({
      severity: "low",
    });
  });

  it("settles after one merge and never has a type twice", () => {
    const condition = fc.record({
      type: fc.constantFrom("A", "B", "C"),
      status: fc.constantFrom("True" as const, "False" as const, "Unknown" as const),
      reason: fc.constantFrom("X", "Y"),
      message: fc.string({ maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.array(condition), fc.array(condition), (before, after) => {
        const first = mergeConditions(mergeConditions([], before, then), after, now);
        expect(new Set(first.map(({ type }) => type)).size).toBe(first.length);
        const last = [...new Map(after.map((one) => [one.type, one])).values()];
        expect(mergeConditions(first, last, now + 1)).toBe(first);
      }),
    );
  });
});

describe("withoutConditions", () => {
  it("leaves types out, and returns the very same list when there is nothing to leave out", () => {
    const current = [ready];
    expect(withoutConditions(current, ["Other"])).toBe(current);
    expect(withoutConditions(current, ["Ready"])).toEqual([]);
  });
});

it("isConditionTrue asks for status True of this generation", () => {
  expect(isConditionTrue([ready], "Ready", 2)).toBe(true);
  expect(isConditionTrue([ready], "Ready", 3)).toBe(false);
  expect(isConditionTrue([{ ...ready, status: "Unknown" }], "Ready")).toBe(false);
  expect(isConditionTrue(undefined, "Ready")).toBe(false);
});
