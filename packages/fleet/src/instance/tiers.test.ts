import { describe, expect, it } from "vitest";
import { anInstance, BORN, condition } from "./testing/views.ts";
import { lookEveryMs, tierMs } from "./tiers.ts";

const MINUTE = 60;

it.each([
  [0, 1],
  [59, 1],
  [59.9, 1],
  [60, 15],
  [299, 15],
  [300, 60],
  [599, 60],
  [600, 300],
  [24 * 60 * MINUTE, 300],
  [-5, 1],
])("8.5 R8 an Instance that has waited for %d s is looked at after %d s", (age, seconds) => {
  expect(tierMs(age * 1000)).toBe(seconds * 1000);
});

describe("the time between two looks", () => {
  const at = (seconds: number): number => BORN + seconds * 1000;

  it("R9 counts from the creation of the Instance, not from a transition in 1970", () => {
    const instance = anInstance({ conditions: [condition("QuotaGranted=Unknown/QuotaNoBudget")] });
    expect(lookEveryMs(instance, at(5))).toBeLessThanOrEqual(1000);
  });

  it("8.5 loses at most a tenth, the same for one uid, and differs between uids", () => {
    const waits = Array.from({ length: 200 }, (_, n) => {
      const instance = anInstance();
      return lookEveryMs({ ...instance, metadata: { ...instance.metadata, uid: `uid-${n}` } }, at(120));
    });
    expect(Math.max(...waits)).toBeLessThanOrEqual(15_000);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(13_500);
    expect(new Set(waits).size).toBeGreaterThan(100);
    expect(lookEveryMs(anInstance(), at(120))).toBe(lookEveryMs(anInstance(), at(130)));
  });

  it("counts from now where the Instance has no time", () => {
    const { metadata: _metadata, ...bare } = anInstance();
    expect(lookEveryMs(bare, at(900))).toBeLessThanOrEqual(1000);
  });

  it("is half an hour for an Instance that waits for no quota", () => {
    expect(lookEveryMs(anInstance({ gates: ["Network"] }), at(5))).toBeGreaterThanOrEqual(27 * MINUTE * 1000);
  });

  it("counts from the deletion, while the claim has to go", () => {
    const deleted = (finalizers: readonly string[]) => {
      const { metadata, ...rest } = anInstance({ gates: [], deleted: true, finalizers });
      return { ...rest, metadata: { ...metadata, creationTimestamp: "2020-01-01T00:00:00Z" } };
    };
    expect(lookEveryMs(deleted(["quota.compute.datumapis.com/claim-cleanup"]), at(5))).toBeLessThanOrEqual(
      1000,
    );
    expect(lookEveryMs(deleted(["other.dev/x"]), at(5))).toBeGreaterThan(1000);
  });
});
