import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { covers, fingerprint } from "./coverage.ts";

const webhook = {
  name: "a.example",
  clientConfig: { caBundle: "AAAA" },
  rules: [{ operations: ["CREATE"] }],
};

describe("a live object covers what is desired", () => {
  it.each<[string, unknown, unknown]>([
    ["when both are the same", { a: [1, { b: "x" }] }, { a: [1, { b: "x" }] }],
    ["with fields that others or defaults added", { a: 1, b: { c: 2, d: 3 } }, { b: { c: 2 } }],
    ["with more named items, in any order", [{ name: "b" }, { ...webhook, sideEffects: "None" }], [webhook]],
    ["with defaults inside the items of a plain list", [{ a: ["CREATE"], scope: "*" }], [{ a: ["CREATE"] }]],
    ["without what is desired to be undefined, null or empty", {}, { a: undefined, b: null, c: [] }],
    ["with an empty list for an empty list", { a: [] }, { a: [] }],
  ])("%s", (_, live, desired) => {
    expect(covers(live, desired)).toBe(true);
  });

  it.each<[string, unknown, unknown]>([
    ["when there is nothing", undefined, { a: 1 }],
    ["when a value differs", { a: { b: 1 } }, { a: { b: 2 } }],
    ["when a value is of another kind", { a: "1" }, { a: 1 }],
    ["when a field is missing", { a: 1 }, { a: 1, b: false }],
    ["when an empty object is missing, which can mean something", {}, { emptyDir: {} }],
    ["when a named item is missing or differs", [{ name: "b" }, { ...webhook, rules: [] }], [webhook]],
    ["when a plain list is longer, shorter or in another order", { a: [1, 2] }, { a: [2, 1] }],
    ["when a plain list is longer", { a: [1, 2] }, { a: [1] }],
    ["when a plain list is shorter", { a: [1] }, { a: [1, 2] }],
    ["when a list should be empty", { a: [1] }, { a: [] }],
    ["when something should be absent", { a: 1 }, { a: null }],
    ["when the name of a field is one that every object has", {}, { toString: "x" }],
    ["when a list is an object", { a: {} }, { a: [] }],
  ])("not %s", (_, live, desired) => {
    expect(covers(live, desired)).toBe(false);
  });

  it("and any JSON covers itself, more of it covers it, and a change of it does not", () => {
    const part = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 5 });
    fc.assert(
      fc.property(part, part, fc.string(), (desired, more, value) => {
        expect(covers(desired, desired)).toBe(true);
        expect(covers({ ...more, ...desired }, desired)).toBe(true);
        expect(covers({ ...desired, changed: `${value}!` }, { ...desired, changed: value })).toBe(false);
      }),
    );
  });
});

it("a fingerprint depends on the content and not on the order of fields", () => {
  expect(fingerprint({ a: 1, b: { c: [1, 2], d: 2 } })).toBe(fingerprint({ b: { d: 2, c: [1, 2] }, a: 1 }));
  expect(fingerprint({ a: 1, b: undefined })).toBe(fingerprint({ a: 1 }));
  expect(fingerprint({ a: [1, 2] })).not.toBe(fingerprint({ a: [2, 1] }));
  expect(fingerprint({ a: 1 })).toMatch(/^[0-9a-f]{32}$/);
});
