import type { Node } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { capabilityOf, wish } from "../node/testing/stub.ts";
import { changedKeys, DerivedKeys, declaredKeys, isUnsettled } from "./derived-keys.ts";
import { GPU } from "./testing/lost.ts";

const at = { installation: "berth", now: 0 };
const ID = `label/${GPU}` as const;
const bare = aNode("n1").build();
const other = aNode("n1")
  .labelled({ [GPU]: "no" })
  .build();

describe("labels that Berth writes", () => {
  it("D-A68 are those that rules declare, without annotations and taints", () => {
    const ids = new Set([ID, "annotation/a", "taint/b:NoSchedule"] as const);
    const { policy, ...rest } = capabilityOf("labels", []).contribute({ node: bare, owned: new Map() }, 0);
    const declared = { ...policy.declared, ids };
    expect(declaredKeys([{ ...rest, policy: { ...policy, declared } }])).toEqual(new Set([GPU]));
  });

  it.each([
    ["D-A69 nothing is wanted", capabilityOf("labels", []), bare, true, false],
    ["D-A70 rules are not known", capabilityOf("labels", []), bare, false, true],
    ["D-A71 another value is wanted", capabilityOf("labels", [wish(ID, "true")]), bare, true, true],
    [
      "D-A72 the value of another is overwritten",
      capabilityOf("labels", [wish(ID, "true")]),
      other,
      true,
      true,
    ],
    [
      "D-A73 the value of another is left",
      capabilityOf("labels", [wish(ID, "true", { foreign: "leave" })]),
      other,
      true,
      false,
    ],
    ["D-A74 the wanted value stands", capabilityOf("labels", [wish(ID, "no")]), other, true, false],
    [
      "D-A75 the value may not change now",
      capabilityOf("labels", [], { decision: { keep: new Map([[ID, "RemovalDelayed"]]) } }),
      bare,
      true,
      true,
    ],
    ["D-A76 another label is wanted", capabilityOf("labels", [wish("label/x", "1")]), bare, true, false],
  ])("%s", (_, capability, node, isKnown, expected) => {
    expect(isUnsettled(node, GPU, [{ capability, known: () => isKnown }], at)).toBe(expected);
  });
});

describe("the keys that rules declare", () => {
  const declaring = (name: string, ...keys: string[]) => {
    const it = capabilityOf(name, []).contribute({ node: bare, owned: new Map() }, 0);
    const ids = new Set(keys.map((key) => `label/${key}` as const));
    return { ...it, policy: { ...it.policy, declared: { ...it.policy.declared, ids } } };
  };

  it("are known once all rules are, follow each change of them, and are those of capabilities with rules alone", () => {
    let [isKnown, changes] = [false, 0];
    const capability = capabilityOf("labels", []);
    const facts = [
      { capability, known: () => true },
      { capability: capabilityOf("more", []), known: () => isKnown },
    ];
    const derived = new DerivedKeys(
      () => facts,
      () => (changes += 1),
    );
    const first = [declaring("labels", "a"), declaring("other", "x")];
    derived.decided("n1", { contributions: first });
    expect(derived.keys).toBeUndefined();
    isKnown = true;
    expect([derived.keys, changes]).toEqual([new Set(["a"]), 1]);
    derived.decided("n2", { contributions: first });
    expect(changes).toBe(1);
    derived.decided("n1", { contributions: [first[0] as (typeof first)[0], declaring("more", "b")] });
    expect([derived.keys, changes]).toEqual([new Set(["a", "b"]), 2]);
  });
});

describe("the keys that a change of a node concerns", () => {
  const labelled = (labels: Record<string, string>): Node => ({ metadata: { labels } });
  it.each<[string, Node, Node, readonly string[] | undefined]>([
    ["nothing", {}, {}, []],
    ["the same labels", labelled({ a: "1" }), labelled({ a: "1" }), []],
    [
      "labels that come, go and differ",
      labelled({ a: "1", b: "1", c: "1" }),
      labelled({ b: "2", c: "1", d: "1" }),
      ["a", "b", "d"],
    ],
    ["first labels", {}, labelled({ a: "1" }), ["a"]],
    ["last labels", labelled({ a: "1" }), {}, ["a"]],
    ["another taint", { spec: {} }, { spec: { taints: [{ key: "a", effect: "NoSchedule" }] } }, undefined],
    [
      "its deletion",
      { metadata: {} },
      { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
      undefined,
    ],
  ])("%s", (_, before, after, keys) => {
    expect(changedKeys(before, after)).toEqual(keys && new Set(keys));
  });
});
