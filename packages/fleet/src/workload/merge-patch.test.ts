import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { applyMergePatch, mergePatchOf } from "./merge-patch.ts";

type Json = Readonly<Record<string, unknown>>;
/** As a user can send it. */
const named = (key: string, value: unknown): unknown =>
  JSON.parse(JSON.stringify({ k: value }).replace("k", key));
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** As RFC 7386, section 2. */
function apply(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result = new Map(Object.entries(isObject(target) ? target : {}));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, apply(result.get(key), value));
  }
  return Object.fromEntries(result);
}

describe("a merge patch", () => {
  it.each<[string, unknown, unknown, unknown]>([
    ["nothing for equal values", { a: [1], b: { c: 1 } }, { b: { c: 1 }, a: [1] }, undefined],
    ["only what differs", { a: 1, b: { c: 1, d: 2 } }, { a: 1, b: { c: 2, d: 2 } }, { b: { c: 2 } }],
    ["null for what goes", { a: { b: 1 } }, { a: {} }, { a: { b: null } }],
    ["a list as a whole", { a: [1, 2] }, { a: [1] }, { a: [1] }],
    ["undefined is none", { a: 1 }, { a: undefined }, { a: null }],
    ["null for a key that every object inherits", named("constructor", "a"), {}, named("constructor", null)],
    ["a new key that every object inherits", {}, named("toString", "a"), named("toString", "a")],
    ["the key of the prototype", named("__proto__", "a"), named("__proto__", "b"), named("__proto__", "b")],
    ["null for the key of the prototype", named("__proto__", { a: 1 }), {}, named("__proto__", null)],
  ])("has %s", (_, from, to, patch) => {
    expect(mergePatchOf(from, to)).toEqual(patch);
    expect(patch === undefined ? from : applyMergePatch(from, patch)).toEqual(to);
  });

  const run = seededRun(500, process.env);
  it(`leads from one object to another (${run.name})`, run.options, () => {
    // A merge patch cannot set null, and the API server stores none.
    const value = fc.letrec((tie) => ({
      any: fc.oneof({ maxDepth: 3 }, fc.integer(), fc.string(), fc.array(fc.integer()), tie("object")),
      object: fc.dictionary(fc.constantFrom("a", "__proto__", "constructor"), tie("any"), {
        noNullPrototype: true,
      }),
    })).object;
    fc.assert(
      fc.property(value, value, (from, to) => {
        const patch = mergePatchOf(from, to);
        expect(patch === undefined ? from : apply(from, patch)).toEqual(to);
        expect(patch === undefined ? from : applyMergePatch(from, patch)).toEqual(to);
      }),
      run.parameters,
    );
  });
});
