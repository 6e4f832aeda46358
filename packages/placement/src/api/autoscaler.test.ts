import { expect, it } from "vitest";
import { DO_NOT_DISRUPT, undisruptedMs } from "./autoscaler.ts";

it.each([
  ["true", Number.POSITIVE_INFINITY],
  ["5m", 300_000],
  ["1h30m", 5_400_000],
  ["1.5h", 5_400_000],
  ["100ms", 100],
  ["0s", 0],
  ["-5m", 0],
  ["5", 0],
  ["", 0],
  ["false", 0],
  ["True", 0],
  [" true", 0],
  ["5d", 0],
  ["1h".repeat(40), 0],
])("do-not-disrupt: %j keeps a pod until it is %d ms old", (value, expected) => {
  expect(undisruptedMs({ annotations: { [DO_NOT_DISRUPT]: value } })).toBe(expected);
});
