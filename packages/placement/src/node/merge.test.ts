import { describe, expect, it } from "vitest";
import type { Reason } from "../api/reasons.ts";
import type { BoundCapability } from "./capability.ts";
import type { MarkId } from "./mark.ts";
import { type MergedMarks, mergeContributions } from "./merge.ts";
import { capabilityOf, wish } from "./testing/stub.ts";
import { makeNode } from "./testing/world.ts";

const merge = (...capabilities: readonly BoundCapability[]): MergedMarks =>
  mergeContributions(capabilities.map((it) => it.contribute({ node: makeNode(), owned: new Map() }, 0)));

describe("merging what capabilities want", () => {
  it("takes the marks of all of them, and the same taint key with two effects as two marks", () => {
    const merged = merge(
      capabilityOf("a", [wish("label/x", "1"), wish("taint/t:NoSchedule", "1")]),
      capabilityOf("b", [wish("label/y", "2"), wish("taint/t:NoExecute", "2")]),
    );
    expect([...merged.wanted.keys()]).toEqual([
      "label/x",
      "taint/t:NoSchedule",
      "label/y",
      "taint/t:NoExecute",
    ]);
  });

  it("writes a place that two want with different values for neither, and says so once", () => {
    const merged = merge(
      capabilityOf("b", [wish("label/x", "2")]),
      capabilityOf("a", [wish("label/x", "1")]),
    );
    expect(merged.wanted.size).toBe(0);
    expect([...merged.kept]).toEqual([["label/x", "MarkConflict"]]);
    const message = 'made-up/rule (a) wants "1" and made-up/rule (b) wants "2": neither is written';
    expect(merged.findings).toEqual([
      { reason: "MarkConflict", severity: "warning", subject: "label/x", message },
    ]);
  });

  it("keeps to a conflict, whatever else is said of the place", () => {
    const merged = merge(
      capabilityOf("a", [wish("label/x", "1")]),
      capabilityOf("b", [wish("label/x", "2"), wish("label/x", "not valid")]),
      capabilityOf("c", [], { decision: { keep: new Map([["label/x", "RuleUnreadable"]]) } }),
    );
    expect([...merged.kept]).toEqual([["label/x", "MarkConflict"]]);
  });

  it("keeps what is refused or not known, for the first reason by name", () => {
    const keep = (reason: Reason) => ({ decision: { keep: new Map<MarkId, Reason>([["label/y", reason]]) } });
    const merged = merge(
      capabilityOf("b", [wish("label/x", "not valid")], keep("RemovalDelayed")),
      capabilityOf("a", [], keep("RuleUnreadable")),
    );
    expect([...merged.kept]).toEqual([
      ["label/x", "MarkInvalid"],
      ["label/y", "RuleUnreadable"],
    ]);
  });

  it("hands on findings, policies and reasons of removals of all of them", () => {
    const finding = { reason: "DryRun", severity: "info", subject: "node", message: "m" } as const;
    const removals = new Map<MarkId, Reason>([["label/x", "Released"]]);
    const [a, b] = [
      capabilityOf("a", [], { decision: { findings: [finding] } }),
      capabilityOf("b", [], { decision: { removals } }),
    ];
    const merged = merge(b, a);
    expect(merged.findings).toEqual([finding]);
    expect([...merged.removals]).toEqual([...removals]);
    expect([...merged.policies.keys()]).toEqual(["a", "b"]);
  });

  it("gives a place that two want with one value to the first by name, whatever the order", () => {
    const one = capabilityOf("a", [wish("label/x", "1")]);
    const two = capabilityOf("b", [wish("label/x", "1")]);
    expect(merge(two, one).wanted.get("label/x")?.capability).toBe("a");
    expect(merge(one, two).wanted.get("label/x")?.capability).toBe("a");
  });

  it("leaves out a mark that the server would refuse, and keeps all others", () => {
    const merged = merge(capabilityOf("a", [wish("label/x", "not valid"), wish("label/y", "1")]));
    expect([...merged.wanted.keys()]).toEqual(["label/y"]);
    expect(merged.findings).toMatchObject([
      {
        reason: "MarkInvalid",
        severity: "warning",
        subject: "label/x",
        message: expect.stringMatching(/^made-up\/rule: ./),
      },
    ]);
  });

  it("lets neither a bad mark nor an unreadable rule stop another capability at the same place", () => {
    const merged = merge(
      capabilityOf("a", [wish("label/x", "not valid")]),
      capabilityOf("b", [], { decision: { keep: new Map([["label/x", "RuleUnreadable"]]) } }),
      capabilityOf("c", [wish("label/x", "1")]),
    );
    expect(merged.wanted.get("label/x")?.capability).toBe("c");
  });

  it("leaves out a key under a protected domain that the policy does not allow", () => {
    const merged = merge(capabilityOf("a", [wish("label/node-role.kubernetes.io/x", "")]));
    expect(merged.wanted.size).toBe(0);
    const message =
      "made-up/rule: the domain is reserved for Kubernetes and the key is not allowed by the policy";
    expect(merged.findings).toMatchObject([{ reason: "ProtectedKey", message }]);
  });
});
