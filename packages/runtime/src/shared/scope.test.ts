import type { CollectionScope, KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { contains, includes, scopeOf } from "./scope.ts";

const pod = (labels: Readonly<Record<string, string>>, nodeName?: string, phase = "Running"): KubeObject =>
  ({ metadata: { name: "p", namespace: "ns", labels }, spec: { nodeName }, status: { phase } }) as KubeObject;
const labelled = (labelSelector: string): CollectionScope => ({ labelSelector });
const RUNNING = { fieldSelector: "status.phase!=Succeeded,status.phase!=Failed" };

describe("a scope selects an object", () => {
  it.each<[CollectionScope, KubeObject, boolean]>([
    [{}, pod({}), true],
    [{ namespace: "ns" }, pod({}), true],
    [{ namespace: "other" }, pod({}), false],
    [labelled("a=1,b"), pod({ a: "1", b: "" }), true],
    [labelled("a=1,b"), pod({ a: "1" }), false],
    [labelled("a==1"), pod({ a: "2" }), false],
    [labelled("a="), pod({ a: "" }), true],
    [labelled("a!=1"), pod({}), true],
    [labelled("a!=1"), pod({ a: "1" }), false],
    [labelled("!a"), pod({}), true],
    [labelled("!a"), pod({ a: "1" }), false],
    [labelled("a in (1, 2)"), pod({ a: "2" }), true],
    [labelled("a in (1,2)"), pod({}), false],
    [labelled("x/a notin (1,2),b"), pod({ b: "1" }), true],
    [labelled("a notin (1,2)"), pod({ a: "1" }), false],
    [labelled("toString"), pod({}), false],
    [{ fieldSelector: "spec.nodeName=" }, pod({}), true],
    [{ fieldSelector: "spec.nodeName=" }, pod({}, "n"), false],
    [{ fieldSelector: "spec.nodeName!=,status.phase=Running" }, pod({}, "n"), true],
    [RUNNING, pod({}, "n", "Failed"), false],
  ])("%j of %j: %s", (scope, object, expected) => {
    expect(contains(scopeOf(scope), object)).toBe(expected);
  });
});

describe("a scope includes another", () => {
  it.each<[CollectionScope, CollectionScope, boolean]>([
    [{}, labelled("a=1"), true],
    [labelled("a=1"), {}, false],
    [{}, { namespace: "ns" }, true],
    [{ namespace: "ns" }, {}, false],
    [{ namespace: "ns" }, { namespace: "ns", labelSelector: "a" }, true],
    [{ namespace: "ns" }, { namespace: "other" }, false],
    [labelled("a"), labelled("b,a"), true],
    [labelled("a"), labelled("a=1"), true],
    [labelled("a"), labelled("a!=1"), false],
    [labelled("a in (1,2)"), labelled("a=1"), true],
    [labelled("a=1"), labelled("a in (1,2)"), false],
    [labelled("a notin (3)"), labelled("a in (1,2)"), true],
    [labelled("a notin (2)"), labelled("a in (1,2)"), false],
    [RUNNING, { fieldSelector: "spec.nodeName=,status.phase=Pending" }, true],
    [RUNNING, { fieldSelector: "spec.nodeName=" }, false],
    [RUNNING, { ...RUNNING, labelSelector: "a" }, true],
    [labelled("status.phase"), { fieldSelector: "status.phase=Running" }, false],
  ])("%j and %j: %s", (wide, narrow, expected) => {
    expect(includes(scopeOf(wide), scopeOf(narrow))).toBe(expected);
  });

  it.each<CollectionScope>([
    labelled("a > 1"),
    labelled("a in 1"),
    labelled("!a=1"),
    { fieldSelector: "spec.hostNetwork=true" },
    { fieldSelector: String.raw`metadata.name=a\,b` },
  ])("never by guessing: %j includes itself alone", (scope) => {
    const opaque = scopeOf(scope);
    expect([
      includes(opaque, scopeOf(scope)),
      includes(scopeOf({}), opaque),
      includes(opaque, scopeOf({})),
    ]).toEqual([true, false, false]);
  });

  it("whatever the order of its conditions", () => {
    expect(scopeOf(labelled("a,b in (2,1)")).text).toBe(scopeOf(labelled("b in (1, 2),a")).text);
  });
});
