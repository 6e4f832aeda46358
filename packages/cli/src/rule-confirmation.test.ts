import { type LabelRuleSpec, labelRuleSpec } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { readClusterRules } from "./label-rules.ts";
import { isAsPlanned } from "./rule-confirmation.ts";

const specOf = (key: string): LabelRuleSpec =>
  labelRuleSpec.parse({ match: { all: [{ key }] }, labels: [{ key: "example.com/gpu" }] });
const planned = readClusterRules([
  { apiVersion: "berth.dev/v1alpha1", kind: "LabelRule", metadata: { name: "gpu" }, spec: specOf("some") },
]);
const document = (name: string, key: string) => ({ name, spec: specOf(key) });

describe("a rule that is to be confirmed", () => {
  it("is as planned", () => {
    expect(isAsPlanned(document("gpu", "some"), planned)).toBe(true);
  });

  it("is another one when it was edited, or made, while the nodes were read", () => {
    expect(isAsPlanned(document("gpu", "all"), planned)).toBe(false);
    expect(isAsPlanned(document("new", "some"), planned)).toBe(false);
    expect(isAsPlanned(document("gpu", "some"), undefined)).toBe(false);
  });
});
