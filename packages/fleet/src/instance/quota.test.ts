import type { Condition } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { evaluateQuota } from "./quota.ts";
import {
  aClaim,
  anInstance,
  aView,
  BORN,
  type ClaimParts,
  claimed,
  condition,
  noClaim,
  saying,
} from "./testing/views.ts";
import type { QuotaSeen } from "./view.ts";

interface Case {
  readonly ageMs?: number;
  readonly gates?: readonly string[];
  readonly stored?: string;
  readonly finalizers?: readonly string[];
}

/** What is decided about the quota, in words. */
function evaluate(quota: QuotaSeen, { ageMs = 0, stored, ...parts }: Case = {}) {
  const conditions: readonly Condition[] = stored ? [condition(`QuotaGranted=${stored}`)] : [];
  const instance = anInstance({ ...parts, conditions });
  const result = evaluateQuota(aView({ instance, nowMs: BORN + ageMs, quota }));
  return {
    says: result.condition && saying(result.condition).slice("QuotaGranted=".length),
    claim: result.claim?.do,
    recheck: result.recheckAfterMs,
    news: result.news && `${result.news.type} ${result.news.reason}`,
  };
}

/** The claim, known for `ageMs`. */
const claim = (parts: ClaimParts): QuotaSeen => claimed(aClaim(parts), parts.ageMs);

const failed = (
  reason: "QuotaBackendUnavailable" | "QuotaNamespaceNotFound" | "QuotaMisconfigured",
): QuotaSeen => ({
  is: "failed",
  reason,
  message: "m",
});
const unknown: QuotaSeen = { is: "read", project: "web", claim: { is: "unknown", because: "not read" } };
const TIER = expect.toSatisfy((ms: number) => ms > 900 && ms <= 1000);
const PENDING = "Unknown/PendingEvaluation: Waiting for quota evaluation";

describe("8.4 while gate Quota is present", () => {
  it.each<[string, QuotaSeen, object]>([
    ["no quota client", { is: "off" }, { says: "True/QuotaDisabled: Quota enforcement disabled" }],
    [
      "ns label missing",
      { is: "unresolvable", message: "m" },
      {
        says: "False/QuotaProjectIDUnresolvable: m",
        news: "Warning QuotaProjectIDUnresolvable",
        recheck: TIER,
      },
    ],
    ["ns not read", unknown, { recheck: TIER }],
    [
      "GET 5xx, timeout, 401",
      failed("QuotaBackendUnavailable"),
      { says: "False/QuotaBackendUnavailable: m", news: "Warning QuotaBackendUnavailable", recheck: TIER },
    ],
    ["claim absent", noClaim, { claim: "create", recheck: TIER }],
    ["claim absent, create ok", claim({}), { says: PENDING, recheck: TIER }],
    [
      "create 404",
      failed("QuotaNamespaceNotFound"),
      { says: "False/QuotaNamespaceNotFound: m", news: "Warning QuotaNamespaceNotFound", recheck: TIER },
    ],
    [
      "create 403 or 422",
      failed("QuotaMisconfigured"),
      { says: "False/QuotaMisconfigured: m", news: "Warning QuotaMisconfigured", recheck: TIER },
    ],
    [
      "H14 Granted False/PendingEvaluation, age < 30 s",
      claim({ granted: "False/PendingEvaluation", ageMs: 29_000 }),
      { says: PENDING, recheck: TIER },
    ],
    [
      "H14 same, age >= 30 s",
      claim({ granted: "False/PendingEvaluation", ageMs: 30_000 }),
      {
        says: "Unknown/QuotaNoBudget: The quota service has not decided for 30 s. Project web may have no budget",
        news: "Warning QuotaNoBudget",
        recheck: TIER,
      },
    ],
    [
      "Granted True",
      claim({ granted: "True/QuotaAvailable: m" }),
      { says: "True/QuotaAvailable: m", news: "Normal QuotaGranted" },
    ],
    [
      "H13 Granted True, foreign uid",
      claim({ granted: "True/QuotaAvailable", uid: "uid-0" }),
      { says: PENDING, recheck: 1000 },
    ],
    [
      "H13 Granted True, foreign cluster",
      claim({ granted: "True/QuotaAvailable", source: "ord-01" }),
      { says: PENDING, recheck: 1000 },
    ],
    [
      "H13 Granted True, terminating",
      claim({ granted: "True/QuotaAvailable", terminating: true }),
      { says: PENDING, recheck: 1000 },
    ],
    [
      "Granted True, own uid, for another project",
      claim({ granted: "True/QuotaAvailable", project: "shop" }),
      { says: PENDING, claim: "delete", recheck: 1000 },
    ],
    [
      "Granted True, no uid, made for an Instance that had this name",
      claim({ granted: "True/QuotaAvailable", uid: undefined }),
      { says: PENDING, claim: "delete", recheck: 1000 },
    ],
    [
      "Granted False/QuotaExceeded",
      claim({ granted: "False/QuotaExceeded: m" }),
      { says: "False/QuotaExceeded: m", news: "Warning QuotaExceeded", recheck: TIER },
    ],
    [
      "Granted False for another reason",
      claim({ granted: "False/Other: m" }),
      { says: "False/QuotaExceeded: m", news: "Warning QuotaExceeded", recheck: TIER },
    ],
    [
      "Granted True without a word",
      claim({ granted: "True/QuotaAvailable" }),
      { says: "True/QuotaAvailable: Quota is available", news: "Normal QuotaGranted" },
    ],
    [
      "Granted False without a word",
      claim({ granted: "False/QuotaExceeded" }),
      {
        says: "False/QuotaExceeded: The quota service gave no reason",
        news: "Warning QuotaExceeded",
        recheck: TIER,
      },
    ],
    ["no condition Granted, age >= 30 s", claim({ ageMs: 40_000 }), { says: PENDING, recheck: TIER }],
    [
      "Granted False/ValidationFailed",
      claim({ granted: "False/ValidationFailed: m" }),
      { says: "False/ValidationFailed: m", news: "Warning ValidationFailed", recheck: TIER },
    ],
  ])("8.4 %s", (_, quota, expected) => {
    expect(evaluate(quota)).toEqual({
      says: undefined,
      claim: undefined,
      recheck: undefined,
      news: undefined,
      ...expected,
    });
  });

  it.each<[string, QuotaSeen]>([
    ["False/QuotaExceeded", claim({ granted: "False/QuotaExceeded: other" })],
    ["Unknown/QuotaNoBudget", claim({ granted: "False/PendingEvaluation", ageMs: 40_000 })],
    ["False/QuotaBackendUnavailable", failed("QuotaBackendUnavailable")],
    ["True/QuotaAvailable", claim({ granted: "True/QuotaAvailable: other" })],
  ])("8.4 %s is reported once", (stored, quota) => {
    expect(evaluate(quota, { stored }).news).toBeUndefined();
  });

  it.each([
    [5, 1],
    [120, 15],
    [400, 60],
    [5000, 300],
  ])("8.4 R8 at an age of %d s it looks again within %d s", (age, tier) => {
    const { recheck = 0 } = evaluate(unknown, { ageMs: age * 1000 });
    expect(recheck).toBeLessThanOrEqual(tier * 1000);
    expect(recheck).toBeGreaterThanOrEqual(tier * 900);
  });

  it("looks soon after a change of the claim, whatever the age, also where quota was off before", () => {
    expect(evaluate(noClaim, { ageMs: 400_000, stored: "True/QuotaDisabled: m" })).toMatchObject({
      claim: "create",
      recheck: 1000,
    });
  });

  it("makes a claim only for an Instance that will free it", () => {
    expect(evaluate(noClaim, { finalizers: ["other.dev/x"] })).toMatchObject({
      claim: undefined,
      says: undefined,
    });
  });
});

describe("item 13: a live claim of another Instance", () => {
  const foreign = claim({ uid: "uid-0", source: "ord-01", granted: "True/QuotaAvailable" });
  const message =
    "ResourceClaim default/instance-w-us-dfw-0 belongs to another Instance: cluster ord-01, namespace ns-u, " +
    "uid uid-0. This Instance waits until that claim is deleted";

  it("is waited for in silence for 60 s", () => {
    expect(evaluate(foreign, { ageMs: 60_000 })).toMatchObject({
      says: PENDING,
      news: undefined,
      recheck: 1000,
    });
  });

  it("says what is not known of it", () => {
    const bare = claimed({ metadata: { namespace: "default", name: "c" } });
    expect(evaluate(bare, { ageMs: 61_000 }).says).toContain(
      "ResourceClaim default/c belongs to another Instance: cluster unknown, namespace unknown, uid unknown.",
    );
  });

  it("is named then, with one Warning", () => {
    const says = `Unknown/PendingEvaluation: ${message}`;
    const first = evaluate(foreign, { ageMs: 61_000, stored: PENDING });
    expect(first).toMatchObject({ says, news: "Warning QuotaClaimHeld", claim: undefined });
    expect(first.recheck).toBeGreaterThan(10_000);
    expect(evaluate(foreign, { ageMs: 62_000, stored: says })).toMatchObject({
      says,
      news: undefined,
    });
  });
});

describe("a claim that stays denied", () => {
  it.each([
    [269_000, 0, undefined],
    [300_000, 0, "delete"],
    [0, 900_000, undefined],
    [0, -900_000, undefined],
  ])(
    "is made again once it is known for 5 minutes: %d ms, by a clock that is %d ms off",
    (ageMs, off, expected) => {
      const quota = claim({ granted: "False/QuotaExceeded: m", ageMs });
      expect(evaluate(quota, { ageMs: 400_000 + off })).toMatchObject({
        claim: expected,
        says: "False/QuotaExceeded: m",
      });
    },
  );

  it("stays while its Instance runs", () => {
    const quota = claim({ granted: "False/QuotaExceeded: m", ageMs: 9_000_000 });
    expect(evaluate(quota, { gates: [], ageMs: 9_000_000 }).claim).toBeUndefined();
  });

  it.each(["False/QuotaExceeded: m", "False/ValidationFailed: m", "Unknown/QuotaNoBudget: m"])(
    "stays reported as %s until the new claim has an answer, or none for 30 s",
    (stored) => {
      const pending = (ageMs: number) => claim({ granted: "False/PendingEvaluation", ageMs });
      for (const quota of [claim({ terminating: true }), pending(29_000)])
        expect(evaluate(quota, { stored, ageMs: 400_000 }).says).toBeUndefined();
      expect(evaluate(pending(31_000), { stored, ageMs: 400_000 }).says).toMatch(/^Unknown\/QuotaNoBudget/);
      expect(evaluate(claim({ ageMs: 31_000 }), { stored }).says).toBe(PENDING);
    },
  );
});

describe("item 1: once gate Quota is gone", () => {
  const runs = { gates: [], stored: "True/QuotaAvailable: m", ageMs: 70_000 };

  it.each<[string, QuotaSeen]>([
    ["the service fails", failed("QuotaBackendUnavailable")],
    ["the project is not known", { is: "unresolvable", message: "m" }],
    ["quota is off", { is: "off" }],
    ["the claim was not read", unknown],
    ["the claim is not decided", claim({ granted: "False/PendingEvaluation", ageMs: 60_000 })],
    ["the claim ends", claim({ terminating: true })],
    ["another has the claim", claim({ uid: "uid-0" })],
    ["the catalog says another size", claim({ project: "shop", granted: "False/PendingEvaluation" })],
  ])("nothing changes while %s, and it is looked at every half hour", (_, quota) => {
    const { recheck = Number.POSITIVE_INFINITY, ...result } = evaluate(quota, runs);
    expect(result).toEqual({ says: undefined, claim: undefined, news: undefined });
    expect(recheck).toBeGreaterThanOrEqual(27 * 60_000);
  });

  it("a denial is written and reported once, and the claim is looked at every half hour", () => {
    const result = evaluate(claim({ granted: "False/QuotaExceeded: m" }), runs);
    expect(result).toMatchObject({
      says: "False/QuotaExceeded: m",
      news: "Warning QuotaExceeded",
      claim: undefined,
    });
    expect(result.recheck).toBeGreaterThanOrEqual(27 * 60_000);
  });

  it("a claim that is gone is made again, but not for an Instance that never had one", () => {
    expect(evaluate(noClaim, runs).claim).toBe("create");
    expect(evaluate(noClaim, { ...runs, stored: "True/QuotaDisabled: m" }).claim).toBeUndefined();
    expect(evaluate(noClaim, { ...runs, finalizers: [] }).claim).toBeUndefined();
    expect(evaluate(claim({ uid: undefined }), runs)).toMatchObject({ says: undefined, claim: "delete" });
  });
});
