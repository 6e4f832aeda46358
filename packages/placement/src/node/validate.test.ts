import { describe, expect, it } from "vitest";
import { policyOf, wish } from "./testing/stub.ts";
import { isProtectedKey, labelKeyProblem, labelValueProblem, markProblem, permits } from "./validate.ts";

const long = (length: number): string => "a".repeat(length);

describe("label keys", () => {
  it.each([
    ..."a A_b-c.d 4913 example.com/x a-b.c/Name x/constructor".split(" "),
    long(63),
    `${long(253)}/${long(63)}`,
  ])("accepts %s", (key) => expect(labelKeyProblem(key)).toBeUndefined());

  it.each([
    ..."|a b|a\n|a\r|/|/a|a/|a/b/c|-a|a-|.a|a.|_a|ä|Example.com/x|a..b/x|-a/x|a_b/x|__proto__".split("|"),
    long(64),
    `${long(254)}/x`,
  ])("refuses %j", (key) => expect(labelKeyProblem(key)).toBeTypeOf("string"));
});

describe("values", () => {
  it.each(["", "true", "A.b_c-1", long(63)])("accepts %j", (value) => {
    expect(labelValueProblem(value)).toBeUndefined();
  });
  it.each([long(64), "-a", "a-", "a b", "a/b", "a\n"])("refuses %j", (value) => {
    expect(labelValueProblem(value)).toBeTypeOf("string");
  });
});

describe("marks", () => {
  it.each([
    wish("label/a", "true"),
    wish("annotation/Example.COM/x", "any text\n"),
    wish("taint/a:NoSchedule", ""),
    wish("taint/example.com/a:NoExecute", "v"),
    wish("unschedulable", "true"),
  ])("accepts $id=$value", (mark) => expect(markProblem(mark)).toBeUndefined());

  it.each([
    wish("label/a/b/c", "true"),
    wish("label/a", "no space"),
    wish("annotation/a b", "x"),
    wish("annotation/berth.dev/marks", "{}"),
    wish("taint/a:Sometimes", ""),
    wish("taint/a b:NoSchedule", ""),
    wish("taint/a:NoSchedule", "a b"),
    wish("unschedulable", "false"),
  ])("refuses $id=$value", (mark) => expect(markProblem(mark)).toBeTypeOf("string"));
});

describe("protected domains", () => {
  it.each(["kubernetes.io/x", "k8s.io/x", "node-role.kubernetes.io/x", "a.b.k8s.io/x", "Kubernetes.IO/x"])(
    "protects %s",
    (key) => expect(isProtectedKey(key)).toBe(true),
  );
  it.each(["x", "kubernetes.io", "notkubernetes.io/x", "kubernetes.io.example.com/x", "example.com/k8s.io"])(
    "does not protect %s",
    (key) => expect(isProtectedKey(key)).toBe(false),
  );

  it("are written only where the policy both declares and allows the key", () => {
    const set = { ids: new Set(["label/k8s.io/x"]), prefixes: [] };
    expect(permits(policyOf(), "label/example.com/x")).toBe(true);
    expect(permits(policyOf(), "label/k8s.io/x")).toBe(false);
    expect(permits(policyOf({ declared: set }), "label/k8s.io/x")).toBe(false);
    expect(permits(policyOf({ allowedProtected: set }), "label/k8s.io/x")).toBe(false);
    expect(permits(policyOf({ declared: set, allowedProtected: set }), "label/k8s.io/x")).toBe(true);
  });
});
