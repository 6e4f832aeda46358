import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { diffOf, keyMatcher, mergeChanges, toMessage } from "./diff.ts";

type Values = Readonly<Record<string, string>>;

const aNode = (labels: Values = {}, annotations: Values = {}): Node => ({
  metadata: { labels, annotations },
});
const isWanted = keyMatcher(["a.example/*", "exact", "constructor"]);
/** The message without its empty parts. */
function told(change: ReturnType<typeof diffOf>): object {
  const { node: _, ...parts } = toMessage("n", change);
  return Object.fromEntries(Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0));
}

it.each([
  ["a.example/x", true],
  ["a.example/sub/x", true],
  ["sub.a.example/x", false],
  ["a.example", false],
  ["exact", true],
  ["exact/x", false],
  ["/x", false],
])("the keys a.example/*, exact: %s is wanted: %j", (key, expected) => {
  expect(isWanted(key)).toBe(expected);
});

it("has the record of marks only if it is named exactly", () => {
  const all = keyMatcher(["berth.dev/*"]);
  expect([all("berth.dev/x"), all("berth.dev/marks")]).toEqual([true, false]);
  expect(keyMatcher(["berth.dev/marks"])("berth.dev/marks")).toBe(true);
});

describe("the change of a node", () => {
  it.each<[string, Node, Node, object]>([
    ["nothing", aNode({ exact: "1" }), aNode({ exact: "1" }), {}],
    ["a label added", aNode(), aNode({ exact: "1" }), { labelsAdded: { exact: "1" } }],
    ["an empty value added", aNode(), aNode({ exact: "" }), { labelsAdded: { exact: "" } }],
    ["a label updated", aNode({ exact: "1" }), aNode({ exact: "2" }), { labelsUpdated: { exact: "2" } }],
    ["a label deleted", aNode({ exact: "1" }), aNode(), { labelsDeleted: ["exact"] }],
    ["the last label deleted", aNode({ exact: "1" }), { metadata: {} }, { labelsDeleted: ["exact"] }],
    ["keys that nobody asked for", aNode({ x: "1" }), aNode({ y: "1" }, { z: "1" }), {}],
    ["a key of every object", aNode(), aNode({ constructor: "1" }), { labelsAdded: { constructor: "1" } }],
    [
      "a label and an annotation of one key",
      aNode({ exact: "1" }, { exact: "1" }),
      aNode({ exact: "2" }, { "a.example/x": "3" }),
      {
        labelsUpdated: { exact: "2" },
        annotationsAdded: { "a.example/x": "3" },
        annotationsDeleted: ["exact"],
      },
    ],
  ])("%s", (_, old, now, expected) => {
    expect(told(diffOf(old, now, isWanted))).toEqual(expected);
  });
});

describe("two changes as one", () => {
  it.each<[string, readonly [Values, Values, Values], object, object]>([
    ["added and deleted", [{}, { exact: "1" }, {}], {}, { labelsDeleted: ["exact"] }],
    [
      "there and back",
      [{ exact: "1" }, { exact: "2" }, { exact: "1" }],
      {},
      { labelsUpdated: { exact: "1" } },
    ],
    ["deleted and added", [{ exact: "1" }, {}, { exact: "1" }], {}, { labelsUpdated: { exact: "1" } }],
    ["added and updated", [{}, { exact: "1" }, { exact: "2" }], { labelsAdded: { exact: "2" } }, {}],
    ["updated and deleted", [{ exact: "1" }, { exact: "2" }, {}], { labelsDeleted: ["exact"] }, {}],
    [
      "different keys",
      [{ exact: "1" }, { constructor: "1" }, { constructor: "1", "a.example/x": "1" }],
      { labelsAdded: { constructor: "1", "a.example/x": "1" }, labelsDeleted: ["exact"] },
      {},
    ],
  ])("%s", (_, [first, second, third], ifUnsent, ifMaybeSent) => {
    const earlier = diffOf(aNode(first), aNode(second), isWanted);
    const later = diffOf(aNode(second), aNode(third), isWanted);
    expect(told(mergeChanges(earlier, later, false))).toEqual(ifUnsent);
    const kept = Object.keys(ifMaybeSent).length > 0 ? ifMaybeSent : ifUnsent;
    expect(told(mergeChanges(earlier, later, true))).toEqual(kept);
  });
});

it("has all parts in every message", () => {
  expect(toMessage("n", new Map())).toEqual({
    node: "n",
    labelsAdded: {},
    labelsDeleted: [],
    labelsUpdated: {},
    annotationsAdded: {},
    annotationsDeleted: [],
    annotationsUpdated: {},
  });
});
