import { keepFields } from "@berth/host";
import type { Node } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import { expect, it } from "vitest";
import { type Fact, labelFields, readNode } from "./facts.ts";

const node = aNode("n1").realistic().notReady().tainted("gpu=a:NoSchedule", "gpu:NoExecute").build();
const keysOf = (object: object = {}): readonly string[] => Object.keys(object);

it.each([
  ["Annotation", keysOf(node.metadata?.annotations)],
  ["Capacity", keysOf(node.status?.capacity)],
  ["Allocatable", keysOf(node.status?.allocatable)],
  ["Condition", (node.status?.conditions ?? []).map(({ type }) => type)],
  ["NodeInfo", keysOf(node.status?.nodeInfo)],
  ["Taint", ["gpu", "gpu:NoExecute"]],
] as const)("every fact that %s names is kept in a cache", (source, keys) => {
  const cached = keepFields<Node>(labelFields)(structuredClone(node));
  const factsOf = (of: Node): readonly Fact[] => [...keys, "absent"].map((key) => readNode(of, source, key));
  expect(keys.length).toBeGreaterThan(1);
  expect(factsOf(cached)).toEqual(factsOf(node));
});
