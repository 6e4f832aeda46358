import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { capabilityOf, wish } from "../node/testing/stub.ts";
import { declaredKeys, isUnsettled } from "./derived-keys.ts";
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
