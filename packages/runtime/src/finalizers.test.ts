import { describe, expect, it } from "vitest";
import { addFinalizer, hasFinalizer, removeFinalizer } from "./finalizers.ts";

const guard = { uid: "u1", resourceVersion: "7" };
const ours = "berth.dev/ground";
const bare = { metadata: { name: "a", ...guard } };
const both = { metadata: { ...bare.metadata, finalizers: ["x/first", ours, "x/last"] } };

const patchTo = (finalizers: readonly string[]) => ({
  type: "merge",
  body: { metadata: { ...guard, finalizers } },
});

describe("finalizers", () => {
  it("adds one behind those of others, bound to the version that was read", () => {
    const object = { metadata: { ...bare.metadata, finalizers: ["x/first"] } };
    const finalizers = ["x/first", ours];
    expect(addFinalizer(object, ours)).toEqual(patchTo(finalizers));
    expect(addFinalizer(bare, ours)).toEqual(patchTo([ours]));
  });

  it("adds nothing when it is there, or when the object is being deleted", () => {
    expect(hasFinalizer(both, ours)).toBe(true);
    expect(addFinalizer(both, ours)).toBeUndefined();
    const deleted = { metadata: { ...bare.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
    expect(addFinalizer(deleted, ours)).toBeUndefined();
  });

  it("removes only its own, also as the last one and while being deleted", () => {
    const finalizers = ["x/first", "x/last"];
    expect(removeFinalizer(both, ours)).toEqual(patchTo(finalizers));
    const last = {
      metadata: { ...bare.metadata, finalizers: [ours], deletionTimestamp: "2026-01-01T00:00:00Z" },
    };
    expect(removeFinalizer(last, ours)).toEqual(patchTo([]));
    expect(removeFinalizer(bare, ours)).toBeUndefined();
  });

  it("refuses to patch what was never read, for want of a guard", () => {
    expect(() => addFinalizer({ metadata: { name: "a" } }, ours)).toThrow(TypeError);
  });
});
