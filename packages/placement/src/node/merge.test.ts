import { describe, expect, it } from "vitest";
import type { BoundCapability } from "./capability.ts";
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
    expect(merged.findings).toMatchObject([
      { reason: "MarkConflict", severity: "warning", subject: "label/x" },
    ]);
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
    expect(merged.findings).toMatchObject([{ reason: "MarkInvalid", subject: "label/x" }]);
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
    expect(merged.findings).toMatchObject([{ reason: "ProtectedKey" }]);
  });
});
