import { expect, it } from "vitest";
import { rankOf, worstOf } from "./ranks.ts";

it("a reason of another program has no rank, whatever its name", () => {
  for (const reason of ["__proto__", "constructor", "toString", "Custom"]) expect(rankOf(reason)).toBe(0);
  const children = ["constructor", "ImageUnavailable", "toString"].map((reason) => ({ reason }));
  expect(worstOf({ reason: "InstancesProvisioning" }, children)).toEqual({ reason: "ImageUnavailable" });
});
