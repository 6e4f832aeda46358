import { DocumentSource } from "@berth/host";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { reasons } from "../api/reasons.ts";
import type { NodeView } from "../node/capability.ts";
import type { AssembledRules } from "./active-rules.ts";
import { defaultLabelOptions } from "./config.ts";
import type { LabelRuleSpec } from "./document.ts";
import type { LabelRule } from "./resource.ts";
import { createLabelRules } from "./rule-documents.ts";

function ruleOf(meta: { readonly uid: string; readonly generation: number }, key: string): LabelRule {
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "LabelRule",
    metadata: { name: "gpu", ...meta },
    spec: { match: { all: [{ key }] }, labels: [{ key: "example.com/gpu" }] },
  };
}

interface Given {
  readonly rule: LabelRule;
  readonly nodesKnown?: () => boolean;
  readonly nodes?: readonly NodeView[];
}

function sourceOf({
  rule,
  nodesKnown = () => true,
  nodes = [],
}: Given): DocumentSource<LabelRuleSpec, AssembledRules> {
  const rules = createLabelRules({
    options: defaultLabelOptions,
    folder: () => undefined,
    nodes: () => (nodesKnown() ? nodes : undefined),
  });
  const source = new DocumentSource(rules, () => {});
  source.setCluster({ objects: [rule] });
  return source;
}

describe("what became of a LabelRule", () => {
  const first = { uid: "u1", generation: 1 };
  const second = { uid: "u1", generation: 2 };

  it("is told of the version that is in force", () => {
    expect(sourceOf({ rule: ruleOf(first, "gpu.present") }).resultOf("gpu", first)?.reason).toBe(
      reasons.RuleInForce,
    );
  });

  it("is not told of an edit before it was taken over", () => {
    const source = sourceOf({ rule: ruleOf(first, "gpu.present") });
    expect(source.resultOf("gpu", second)).toBeUndefined();
    source.setCluster({ objects: [ruleOf(second, "example.com/gpu")] });
    expect(source.resultOf("gpu", second)?.reason).toBe(reasons.CyclicRule);
    expect(source.resultOf("gpu", first)).toBeUndefined();
  });

  it("is not told of another rule that came to have its name", () => {
    const source = sourceOf({ rule: ruleOf(first, "gpu.present") });
    expect(source.resultOf("gpu", { uid: "u2", generation: 1 })).toBeUndefined();
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
    expect(sourceOf({ rule, nodesKnown: () => false }).resultOf("gpu", first)?.reason).toBe(
      reasons.RuleInForce,
    );
  });

  it("is not told of one that asks before it acts until the nodes are known", () => {
    let known = false;
    const asking = ruleOf(first, "gpu.present");
    const rule = { ...asking, spec: Object.assign({ confirmAbovePercent: 50 }, asking.spec) };
    const source = sourceOf({ rule, nodesKnown: () => known });
    expect(source.resultOf("gpu", first)).toBeUndefined();
    known = true;
    source.refresh();
    expect(source.resultOf("gpu", first)?.reason).toBe(reasons.RuleInForce);
  });
});

describe("before a LabelRule is stored, its author", () => {
  const meta = { uid: "u", generation: 1 };
  const named = (name: string, more: object = {}, annotations = {}): LabelRule => {
    const rule = ruleOf(meta, "gpu.present");
    return { ...rule, metadata: { name, annotations }, spec: Object.assign({}, rule.spec, more) };
  };

  it("learns of another rule that sets the label, unless the rule silences that", () => {
    const source = sourceOf({ rule: ruleOf(meta, "gpu.present") });
    expect(source.remarksOn(named("other"))).toEqual([
      "RulesOverlap: example.com/gpu is also set by cluster/gpu; equal values merge",
    ]);
    expect(source.remarksOn(named("other", {}, { "berth.dev/silence": "RulesOverlap" }))).toEqual([]);
    expect(source.remarksOn(named("gpu"))).toEqual([]);
  });

  it("learns that it would wait for a confirmation", () => {
    const nodes = [{ node: aNode("n").labelled({ "gpu.present": "x" }).build(), owned: new Map() }];
    const source = sourceOf({ rule: ruleOf(meta, "other.present"), nodes });
    expect(source.remarksOn(named("gpu", { confirmAbovePercent: 50 }))).toEqual([
      expect.stringMatching(/^ConfirmationRequired: it would change 1 of 1 nodes .*berth confirm gpu/),
    ]);
  });

  it("S-6 does not learn it where the count could take long", () => {
    const view = { node: aNode("n").labelled({ "gpu.present": "x" }).build(), owned: new Map() };
    const nodes = Array.from({ length: 40_000 }, () => view);
    const source = sourceOf({ rule: ruleOf(meta, "other.present"), nodes });
    expect(source.remarksOn(named("gpu", { confirmAbovePercent: 50 }))).toEqual([]);
    expect(source.remarksOn(named("other"))).toHaveLength(1);
  });
});
