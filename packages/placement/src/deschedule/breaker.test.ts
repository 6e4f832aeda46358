import { describe, expect, it } from "vitest";
import { decideEvictions, type EvictionView } from "./decide.ts";
import { emptyLedger, type LedgerView } from "./ledger.ts";
import { aPolicy, aView, decided, lostPod, single, singles } from "./testing/lost.ts";

const HOUR = 3_600_000;
const begun =
  (...times: readonly number[]): LedgerView["begunSince"] =>
  (sinceMs) =>
    times.flatMap((atMs, i) => (atMs > sinceMs ? [{ uid: `gone${i}`, rule: "config/default", atMs }] : []));

describe("the breaker", () => {
  const tooMany = (count: number, inScope: number, more: Partial<EvictionView> = {}, spec: object = {}) =>
    decideEvictions(aView(singles(count, { policy: aPolicy(spec) }), { inScope: () => inScope, ...more }))
      .tooMany.size === 1;

  it.each<[string, number, number, object, boolean]>([
    ["D-E1 a tenth is not too many", 10, 100, {}, false],
    ["D-E2 more than a tenth is", 10, 99, {}, true],
    ["D-E3 fewer than 10 never are", 9, 9, {}, false],
    ["D-E4 all may go where the policy says 100 percent", 50, 50, { breaker: { percent: 100 } }, false],
    ["D-E5 a policy may say fewer", 2, 9, { breaker: { pods: 2 } }, true],
    ["D-E6 in a dry run as well", 10, 99, { dryRun: true }, true],
    ["D-E7 those that go within 5 minutes count", 10, 99, { for: "65m" }, true],
    ["D-E8 those that go later do not", 10, 99, { for: "66m" }, false],
  ])("%s", (_, count, inScope, spec, expected) => {
    expect(tooMany(count, inScope, {}, spec)).toBe(expected);
  });

  it("D-E9 freezes all pods of the policy at once, and none of another", () => {
    const lost = [...singles(10), lostPod(single("x"), { policy: aPolicy({}, "other") })];
    const reasons = decided(aView(lost, { inScope: () => 50 }));
    expect(reasons.filter((it) => it.endsWith("EvictionsFrozen"))).toHaveLength(10);
    expect(reasons).toContain("x PodDescheduled");
  });

  it("D-E10 counts evictions of the last 5 minutes, and a pod that is still there once", () => {
    const times = [HOUR - 299_999, HOUR - 10, HOUR - 10, HOUR - 10, HOUR - 10];
    const ledger = { ...emptyLedger, begunSince: begun(...times) };
    expect(tooMany(5, 99, { ledger })).toBe(true);
    expect(tooMany(4, 99, { ledger })).toBe(false);
    const same = {
      ...emptyLedger,
      begunSince: () => singles(5).map(({ pod }) => ({ uid: pod.metadata?.uid ?? "", rule: "", atMs: 0 })),
    };
    expect(tooMany(5, 9, { ledger: same })).toBe(false);
  });

  it("D-E16 lets all go at 100 percent, however many were evicted before", () => {
    const ledger = { ...emptyLedger, begunSince: begun(HOUR, HOUR, HOUR, HOUR) };
    expect(tooMany(10, 10, { ledger }, { breaker: { percent: 100 } })).toBe(false);
  });

  it("D-E11 does not count pods of an owner that is left alone", () => {
    expect(tooMany(10, 99, { ledger: { ...emptyLedger, isGivenUp: () => true } })).toBe(false);
  });
});
