import { type DocumentResult, decideStatus } from "@berth/host";
import { describe, expect, it } from "vitest";
import { NEW_YEAR } from "../node/testing/labels.ts";
import type { LabelRule } from "./resource.ts";
import { describeRule, type StatusInput } from "./status.ts";
import type { RuleCounts } from "./tally.ts";

const none: RuleCounts = {
  matched: 0,
  labelled: 0,
  pending: 0,
  conflicting: 0,
  firstMatched: [],
  firstConflicting: [],
};
const inForce: DocumentResult = { ready: true, reason: "RuleInForce", message: "in force" };
const rule = (more: Partial<LabelRule> = {}): LabelRule => ({
  metadata: { name: "r", generation: 1 },
  ...more,
});
const decide = (more: Partial<StatusInput> = {}, now = NEW_YEAR) => {
  const input = { rule: rule(), result: inForce, counts: none, frozen: undefined, ...more };
  return decideStatus(input.rule, describeRule(input), now);
};

describe("the status of a rule", () => {
  it("says what it is about, counts, and that the rule is in force", () => {
    const counts = { ...none, matched: 3, labelled: 2, pending: 1, firstMatched: ["n1", "n2", "n3"] };
    expect(decide({ counts }).status).toEqual({
      observedGeneration: 1,
      matchedNodes: 3,
      labelledNodes: 2,
      pendingRemovals: 1,
      firstNodes: ["n1", "n2", "n3"],
      conditions: [
        {
          type: "Ready",
          status: "True",
          reason: "RuleInForce",
          message: "in force",
          observedGeneration: 1,
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    });
  });

  it("is not written when it stands already", () => {
    const { status } = decide();
    expect(decide({ rule: rule({ status: status ?? {} }) }, NEW_YEAR + 60_000).status).toBeUndefined();
  });

  it("leaves what was counted as it stands until every node has been looked at", () => {
    const counts = { ...none, matched: 3, conflicting: 1, conflictsWith: "config/o", firstMatched: ["n1"] };
    const status = decide({ counts }).status ?? {};
    const after = (more: Partial<StatusInput>) =>
      decide({ rule: rule({ status }), counts: undefined, ...more }).status;
    expect(after({})).toBeUndefined();
    const result: DocumentResult = { ready: false, reason: "RuleInvalid", message: "has a fault" };
    expect(after({ result })).toMatchObject({
      matchedNodes: 3,
      firstNodes: ["n1"],
      conditions: [{ type: "Conflicting" }, { type: "Ready", status: "False" }],
    });
  });

  it("names the other rule and the first nodes of a conflict, and takes that back", () => {
    const counts = { ...none, conflicting: 7, conflictsWith: "config/o", firstConflicting: ["a", "b"] };
    const { status, news } = decide({ counts });
    const message =
      "config/o wants another value on 7 nodes (a, b and 5 more); Berth does not change it there";
    expect(status?.conditions).toMatchObject([
      { type: "Conflicting", status: "True", message },
      { type: "Ready" },
    ]);
    expect(news).toMatchObject([{ type: "Conflicting" }]);
    expect(news).toHaveLength(1);
    const later = decide({ rule: rule({ status: status ?? {} }) });
    expect(later.status?.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
  });

  it("I-5 a rule in conflict is not Ready, by that reason, until the conflict is over", () => {
    const counts = { ...none, conflicting: 1, conflictsWith: "cluster/o", firstConflicting: ["a"] };
    const ready = { type: "Ready", status: "False", reason: "RuleConflict" };
    const message = "cluster/o wants another value on 1 node (a); Berth does not change it there";
    const { status } = decide({ counts });
    expect(status?.conditions?.at(-1)).toMatchObject({ ...ready, message });
    const standing = rule({ status: status ?? {} });
    expect(decide({ rule: standing, counts: undefined }).status).toBeUndefined();
    const over = decide({ rule: standing });
    expect(over.status?.conditions).toMatchObject([{ type: "Ready", status: "True", reason: "RuleInForce" }]);
    expect(over.news).toMatchObject([{ type: "Ready", status: "True" }]);
  });

  it("says that removals are frozen, and how to let them go", () => {
    const { status, news } = decide({ frozen: { rule: "cluster/r", losing: 12, carrying: 40 } });
    expect(status?.conditions).toMatchObject([
      { type: "Ready" },
      {
        type: "RemovalsFrozen",
        reason: "RemovalsFrozen",
        message: expect.stringContaining("berth confirm r"),
      },
    ]);
    expect(news).toMatchObject([{ type: "RemovalsFrozen" }]);
  });

  it("has news when the rule stops being in force and when it is again, each once", () => {
    const waits: DocumentResult = {
      ready: false,
      reason: "ConfirmationRequired",
      message: "it would change 5 of 5 nodes",
    };
    const first = decide({ result: waits });
    expect(first.news).toMatchObject([{ type: "Ready", status: "False" }]);
    const standing = rule({ status: first.status ?? {} });
    expect(decide({ rule: standing, result: waits, counts: { ...none, matched: 1 } }).news).toEqual([]);
    const again = decide({ rule: standing });
    expect(again.news).toMatchObject([{ type: "Ready", status: "True" }]);
    expect(decide().news).toEqual([]);
    const overlap: DocumentResult = {
      ready: true,
      reason: "RulesOverlap",
      message: "in force; x is also set by folder/x",
    };
    expect(decide({ result: overlap }).news).toMatchObject([{ reason: "RulesOverlap" }]);
  });
});
