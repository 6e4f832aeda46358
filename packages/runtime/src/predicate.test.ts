import type { KubeObject } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Change } from "./lister.ts";
import {
  and,
  changed,
  generationChanged,
  isSameData,
  labelsChanged,
  not,
  or,
  type Predicate,
} from "./predicate.ts";

interface Node extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly { readonly key: string }[] };
}

function update(old: Node, object: Node): Change<Node> {
  return { type: "updated", old, object };
}

const meta = (metadata: Node["metadata"]): Node => ({ metadata: metadata ?? {} });
const added: Change<Node> = { type: "added", object: {}, initial: false };
const deleted: Change<Node> = { type: "deleted", object: {} };
const yes: Predicate = () => true;
const annotationsChanged = changed((it) => it.metadata?.annotations);

describe("predicates", () => {
  it.each([
    ["labels", labelsChanged, meta({ labels: { a: "1" } }), meta({ labels: { a: "2" } })],
    ["labels", labelsChanged, meta({}), meta({ labels: { a: "1" } })],
    ["a selected part", annotationsChanged, meta({ annotations: { a: "1" } }), meta({})],
    ["generation", generationChanged, meta({ generation: 1 }), meta({ generation: 2 })],
  ] as const)("sees a change of %s, and none in an equal copy", (_name, predicate, old, object) => {
    expect(predicate(update(old, object))).toBe(true);
    expect(predicate(update(object, structuredClone(object)))).toBe(
      predicate(update(old, structuredClone(old))),
    );
    expect([predicate(added), predicate(deleted)]).toEqual([true, true]);
  });

  it("lets a change pass where the object has no generation to go by", () => {
    expect(generationChanged(update(meta({ generation: 3 }), meta({ generation: 3 })))).toBe(false);
    expect(generationChanged(update(meta({}), meta({})))).toBe(true);
  });

  it("combines them", () => {
    const labelled = update(meta({ labels: { a: "1" } }), meta({ labels: { a: "2" } }));
    expect(and(labelsChanged, annotationsChanged)(labelled)).toBe(false);
    expect(or(labelsChanged, annotationsChanged)(labelled)).toBe(true);
    expect(not(labelsChanged)(labelled)).toBe(false);
    expect([and()(labelled), or()(labelled), and(yes, not(or()))(labelled)]).toEqual([true, false, true]);
  });

  it("does not look into a part that is the very same object", () => {
    const trap = new Proxy({}, { ownKeys: () => expect.fail("looked inside") });
    expect(changed(() => trap)(update({}, {}))).toBe(false);
  });
});

it("isSameData agrees with the JSON of both, keys sorted", () => {
  const text = (value: unknown): string =>
    JSON.stringify(value, (_key, part: unknown) =>
      typeof part === "object" && part !== null && !Array.isArray(part)
        ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
        : part,
    );
  const small = fc.jsonValue({ maxDepth: 2 });
  fc.assert(
    fc.property(small, small, (a, b) => {
      const [x, y]: unknown[] = [JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b))];
      expect(isSameData(x, y)).toBe(text(x) === text(y));
      expect(isSameData(x, structuredClone(x))).toBe(true);
    }),
  );
});

it("isSameData tells an array from an object, absent from null, and takes undefined for absent", () => {
  expect(isSameData([], {})).toBe(false);
  expect(isSameData({ a: null }, {})).toBe(false);
  expect(isSameData({ a: undefined }, {})).toBe(true);
  expect(isSameData({}, { a: undefined })).toBe(true);
  expect(isSameData({ toString: "x" }, {})).toBe(false);
  expect(isSameData({}, { toString: "x" })).toBe(false);
});
