import type { Pod } from "@berth/kube";
import type { Change } from "@berth/runtime";
import { aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { nodeOf, nodesOfChange } from "./pod-nodes.ts";

const unbound = aPod("p").build();
const on = (node: string): Pod => aPod("p").on(node).build();

describe("the node of a pod", () => {
  it.each<[string, Pod, readonly string[]]>([
    ["one that is bound", on("n1"), ["n1"]],
    ["one that is not", unbound, []],
    ["one whose node stands empty", on(""), []],
    ["one without a spec", { metadata: { name: "p" } }, []],
  ])("%s", (_, pod, nodes) => {
    expect(nodeOf(pod)).toEqual(nodes);
  });
});

describe("a change of a pod concerns", () => {
  it.each<[string, Change<Pod>, readonly string[]]>([
    ["the node of a new one", { type: "added", object: on("n1"), initial: false }, ["n1"]],
    ["the node of one that is gone", { type: "deleted", object: on("n1") }, ["n1"]],
    ["the node once when it stays there", { type: "updated", object: on("n1"), old: on("n1") }, ["n1"]],
    ["its new node when it is bound", { type: "updated", object: on("n1"), old: unbound }, ["n1"]],
    ["both when it is elsewhere", { type: "updated", object: on("n1"), old: on("n2") }, ["n1", "n2"]],
    ["the old one when it has none now", { type: "updated", object: unbound, old: on("n2") }, ["n2"]],
    ["none while it has none", { type: "added", object: unbound, initial: true }, []],
  ])("%s", (_, change, nodes) => {
    expect([...nodesOfChange(change)]).toEqual(nodes);
  });
});
