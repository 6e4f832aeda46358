import { type DocumentResult, decideStatus } from "@berth/host";
import { describe, expect, it } from "vitest";
import { descheduleRules } from "./compile.ts";
import type { DeschedulePolicy } from "./resource.ts";
import { type DescheduleCounts, describePolicy } from "./status.ts";
import { aPolicy, BUILT_MS } from "./testing/lost.ts";

const counts: DescheduleCounts = {
  inScope: 40,
  lost: 12,
  inProgress: 1,
  givenUp: 2,
  waiting: [],
  first: ["default/a", "default/b"],
  frozen: [],
};
const inForce: DocumentResult = { ready: true, reason: "DeschedulePolicyInForce", message: "in force" };
const fresh: DeschedulePolicy = { metadata: { name: "default", generation: 3 } };
const decide = (
  policy: DeschedulePolicy,
  of: Partial<DescheduleCounts> | undefined = {},
  result: DocumentResult = inForce,
) => decideStatus(policy, describePolicy(policy, result, of && { ...counts, ...of }), BUILT_MS);
const after = (of: Partial<DescheduleCounts>, before: DeschedulePolicy = fresh): DeschedulePolicy => {
  const { status = before.status } = decide(before, of);
  return { ...before, ...(status !== undefined && { status }) };
};
const newsOf = (...args: Parameters<typeof decide>): readonly string[] =>
  decide(...args).news.map(({ type, status, reason }) => `${type}=${status} ${reason}`);

describe("the status of a policy", () => {
  it("D-F29 says why lost pods stay", () => {
    const { status } = decide(fresh, { waiting: ["1 DisruptionBudget", "2 NoOtherNode"] });
    const message = "in force; lost pods stay: 1 DisruptionBudget, 2 NoOtherNode";
    expect(status?.conditions).toMatchObject([{ type: "Ready", status: "True", message }]);
  });

  it("says that it is about nothing while no rule writes a label", () => {
    const aboutNothing = "no rule of Berth writes a label";
    const { status } = decide(fresh, { aboutNothing, inScope: 0, lost: 0 });
    const message = "in force; it is about no pod: no rule of Berth writes a label";
    expect(status?.conditions).toMatchObject([{ type: "Ready", status: "True", message }]);
    expect(decide(after({ aboutNothing })).status?.conditions).toMatchObject([{ message: "in force" }]);
  });

  it("D-F20 has the counts, the first pods, and whether the policy is in force", () => {
    const { status, news } = decide(fresh);
    expect(status).toMatchObject({
      observedGeneration: 3,
      podsInScope: 40,
      lostPods: 12,
      evictionsInProgress: 1,
      givenUpOwners: 2,
      firstPods: ["default/a", "default/b"],
      conditions: [{ type: "Ready", status: "True", reason: "DeschedulePolicyInForce" }],
    });
    expect(news).toEqual([]);
    expect(decide(after({})).status).toBeUndefined();
  });

  it.each<[readonly string[], string]>([
    [[""], "none is evicted"],
    [["", "evil"], "none is evicted"],
    [["evil"], "too many of them in namespaces evil, where none is evicted"],
    [
      ["f", "e", "d", "c", "b", "a"],
      "too many of them in namespaces a, b, c, d, e and 1 more, where none is evicted",
    ],
  ])("D-E23 says of which namespaces %j too many would go", (frozen, what) => {
    const { status } = decide(fresh, { frozen });
    const condition = status?.conditions?.find(({ type }) => type === "EvictionsFrozen");
    expect(condition?.message).toBe(
      `12 of 40 pods in scope are on wrong nodes; ${what} until fewer are for 5 minutes. To let them go, raise spec.breaker`,
    );
  });

  it("D-F21 keeps the counts of before while Berth does not know them", () => {
    const { status } = decideStatus(
      { ...after({ frozen: [""] }), metadata: { name: "default", generation: 4 } },
      describePolicy(after({ frozen: [""] }), inForce, undefined),
      BUILT_MS,
    );
    expect(status).toMatchObject({ podsInScope: 40, observedGeneration: 4 });
    expect(status?.conditions?.map(({ type }) => type)).toContain("EvictionsFrozen");
  });

  it("D-E14 has a condition while evictions are frozen, with one Event, and none after that", () => {
    const frozen = after({ frozen: [""] });
    expect(frozen.status?.conditions).toContainEqual(
      expect.objectContaining({
        type: "EvictionsFrozen",
        status: "True",
        message:
          "12 of 40 pods in scope are on wrong nodes; none is evicted until fewer are for 5 minutes. " +
          "To let them go, raise spec.breaker",
      }),
    );
    expect(newsOf(fresh, { frozen: [""] })).toEqual(["EvictionsFrozen=True EvictionsFrozen"]);
    expect(newsOf(frozen, { frozen: [""], lost: 13 })).toEqual([]);
    expect(after({}, frozen).status?.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
  });

  it("D-F22 is not ready while pods cannot be read, with an Event at the beginning and at the end", () => {
    const problem = "Berth may not list pods";
    expect(newsOf(fresh, { problem })).toEqual(["Ready=False PodsUnread"]);
    const unread = after({ problem });
    expect(unread.status?.conditions).toMatchObject([{ status: "False", message: problem }]);
    expect(newsOf(unread, {})).toEqual(["Ready=True DeschedulePolicyInForce"]);
  });

  it("D-F23 tells of its own fault rather than of pods", () => {
    const faulty: DocumentResult = { ready: false, reason: "DeschedulePolicyInvalid", message: "no" };
    expect(newsOf(fresh, { problem: "unread" }, faulty)).toEqual(["Ready=False DeschedulePolicyInvalid"]);
  });

  it.each([
    ["D-F24 in force", {}, "DeschedulePolicyInForce"],
    ["D-F25 on trial", { dryRun: true }, "DryRun"],
  ])("%s", (_, spec, reason) => {
    const document = { name: "default", spec: aPolicy(spec).spec };
    const result = descheduleRules.resultOf(document as never, { policies: [], faults: [] });
    expect(result).toMatchObject({ ready: true, reason });
  });
});
