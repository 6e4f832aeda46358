import { expect, it } from "vitest";
import { conditionsWith } from "./conditions.ts";
import { aCondition } from "./testing/fixtures.ts";

const nowMs = Date.parse("2026-02-01T00:00:00Z");
const verdict = { status: "False", reason: "NotYet", message: "soon" } as const;
const other = aCondition("Other", "True");

it("sets a condition with the generation of the object, from now on, and keeps those of others", () => {
  expect(conditionsWith([other], { of: { Available: verdict }, generation: 3, nowMs })).toEqual([
    { type: "Available", ...verdict, observedGeneration: 3, lastTransitionTime: "2026-02-01T00:00:00Z" },
    other,
  ]);
});

it("says no generation where the object has none", () => {
  const [condition] = conditionsWith(undefined, { of: { Available: verdict }, generation: undefined, nowMs });
  expect(Object.keys(condition ?? {}).toSorted()).toEqual([
    "lastTransitionTime",
    "message",
    "reason",
    "status",
    "type",
  ]);
});

it("removes a condition without a verdict, and no other", () => {
  const present = [aCondition("Available", "True"), other];
  expect(conditionsWith(present, { of: { Available: undefined }, generation: 1, nowMs })).toEqual([other]);
});

it("is the present list itself when nothing changes, whatever the time", () => {
  const of = { Available: verdict };
  const present = conditionsWith([other], { of, generation: 3, nowMs });
  expect(conditionsWith(present, { of, generation: 3, nowMs: nowMs + 1000 })).toBe(present);
});
