import type { Node } from "@berth/kube";
import { defaultLabelOptions, type LabelRule, reasons } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { LabelRuleHub } from "./label-rules.ts";

function ruleOf(meta: { readonly uid: string; readonly generation: number }, key: string): LabelRule {
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "LabelRule",
    metadata: { name: "gpu", ...meta },
    spec: { match: { all: [{ key }] }, labels: [{ key: "example.com/gpu" }] },
  };
}

function hubOf(rule: LabelRule, known: { synced: boolean } = { synced: true }): LabelRuleHub {
  const nodes = {
    get synced() {
      return known.synced;
    },
    list: () => new Map<string, Node>().values(),
  };
  const hub = new LabelRuleHub({
    nodes,
    installation: "berth",
    options: defaultLabelOptions,
    onChange: () => {},
  });
  hub.setCluster({ objects: [rule] });
  return hub;
}

describe("what became of a LabelRule", () => {
  const first = { uid: "u1", generation: 1 };
  const second = { uid: "u1", generation: 2 };

  it("is told of the version that is in force", () => {
    expect(hubOf(ruleOf(first, "gpu.present")).verdictOf("gpu", first)?.reason).toBe(reasons.RuleInForce);
  });

  it("is not told of an edit before it was taken over", () => {
    const hub = hubOf(ruleOf(first, "gpu.present"));
    expect(hub.verdictOf("gpu", second)).toBeUndefined();
    hub.setCluster({ objects: [ruleOf(second, "example.com/gpu")] });
    expect(hub.verdictOf("gpu", second)?.reason).toBe(reasons.CyclicRule);
    expect(hub.verdictOf("gpu", first)).toBeUndefined();
  });

  it("is not told of another rule that came to have its name", () => {
    const hub = hubOf(ruleOf(first, "gpu.present"));
    expect(hub.verdictOf("gpu", { uid: "u2", generation: 1 })).toBeUndefined();
  });

  it("I-5 a conflict does not make a rule ask again after a restart", () => {
    const { spec, ...asking } = ruleOf(first, "gpu.present");
    const conflict = {
      type: "Ready",
      status: "False",
      reason: "RuleConflict",
      message: "",
      observedGeneration: 1,
    };
    const conditions = [{ ...conflict, lastTransitionTime: "2026-01-01T00:00:00Z" }] as const;
    const rule = {
      ...asking,
      spec: Object.assign({ confirmAbovePercent: 50 }, spec),
      status: { conditions },
    };
    expect(hubOf(rule, { synced: false }).verdictOf("gpu", first)?.reason).toBe(reasons.RuleInForce);
  });

  it("is not told of one that asks before it acts until the nodes are known", () => {
    const known = { synced: false };
    const asking = ruleOf(first, "gpu.present");
    const hub = hubOf({ ...asking, spec: Object.assign({ confirmAbovePercent: 50 }, asking.spec) }, known);
    expect(hub.verdictOf("gpu", first)).toBeUndefined();
    known.synced = true;
    hub.nodesKnown();
    expect(hub.verdictOf("gpu", first)?.reason).toBe(reasons.RuleInForce);
  });
});
