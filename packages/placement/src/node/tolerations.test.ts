import type { Toleration } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { tolerates, toleratesAnyValue } from "./tolerations.ts";

const wait = { key: "k", value: "wait", effect: "NoSchedule" };

describe("tolerates, by the rule of the scheduler", () => {
  it.each<readonly [string, Toleration, boolean]>([
    ["everything", { operator: "Exists" }, true],
    ["every key of the effect", { operator: "Exists", effect: "NoSchedule" }, true],
    ["every key of another effect", { operator: "Exists", effect: "NoExecute" }, false],
    ["the key, whatever the value", { key: "k", operator: "Exists" }, true],
    ["another key, whatever the value", { key: "k2", operator: "Exists" }, false],
    ["the value, without an operator", { key: "k", value: "wait" }, true],
    ["the value, with an empty effect", { key: "k", operator: "Equal", value: "wait", effect: "" }, true],
    ["another value", { key: "k", operator: "Equal", value: "other" }, false],
    ["no value", { key: "k", operator: "Equal" }, false],
    ["for some seconds", { key: "k", operator: "Exists", tolerationSeconds: 5 }, true],
    ["by comparison, which is off by default", { key: "k", operator: "Gt", value: "1" }, false],
    ["by an operator that is not known", { key: "k", operator: "exists" }, false],
  ])("tolerates %s: %j is %s", (_, toleration, expected) => {
    expect(tolerates([toleration], wait)).toBe(expected);
    expect(tolerates([{ key: "unrelated", operator: "Exists" }, toleration], wait)).toBe(expected);
  });

  it("takes a taint without a value for one with an empty value", () => {
    const { value: _, ...taint } = wait;
    expect(tolerates([{ key: "k" }], taint)).toBe(true);
    expect(tolerates([{ key: "k", value: "wait" }], taint)).toBe(false);
    expect(tolerates(undefined, taint)).toBe(false);
  });
});

describe("tolerates any value", () => {
  it.each<readonly [Toleration, boolean]>([
    [{ operator: "Exists" }, true],
    [{ key: "k", operator: "Exists" }, true],
    [{ key: "k", operator: "Exists", effect: "NoSchedule" }, true],
    [{ key: "k", operator: "Exists", effect: "NoExecute" }, false],
    [{ key: "k2", operator: "Exists" }, false],
    [{ key: "k", value: "wait", effect: "NoSchedule" }, false],
    [{ key: "k" }, false],
  ])("%j: %s", (toleration, expected) => {
    expect(toleratesAnyValue([toleration], wait)).toBe(expected);
    expect(toleratesAnyValue(undefined, wait)).toBe(false);
  });
});
