import type { ManagedFieldsEntry } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { itemKey, ownEntry, ownedAt } from "./managed-fields.ts";

const entry = (init: Partial<ManagedFieldsEntry>): ManagedFieldsEntry => ({
  manager: "berth",
  operation: "Apply",
  fieldsV1: { "f:spec": { "f:paused": {} } },
  ...init,
});

describe("the entry of what a manager has applied", () => {
  it("is told from its other writes, from those of subresources and from those of others", () => {
    const own = entry({});
    const others = [
      entry({ operation: "Update" }),
      entry({ subresource: "status" }),
      entry({ manager: "berth-b" }),
    ];
    expect(ownEntry([...others, own], "berth")).toBe(own);
    expect(ownEntry(others, "berth")).toBeUndefined();
  });

  it("says what is owned below a place, and nothing of what is not", () => {
    expect(ownedAt(entry({}), ["f:spec"])).toEqual({ "f:paused": {} });
    expect(ownedAt(entry({}), ["f:spec", "f:paused"])).toEqual({});
    expect(ownedAt(entry({}), ["f:spec", "f:toString"])).toBeUndefined();
    expect(ownedAt(entry({}), ["f:spec", "toString"])).toBeUndefined();
    expect(ownedAt(undefined, ["f:spec"])).toBeUndefined();
  });
});

describe("an item of a list", () => {
  it.each([
    ['k:{"name":"wait"}', "wait"],
    ['k:{"containerPort":80}', undefined],
    ["k:{", undefined],
    ["k:7", undefined],
    ["k:null", undefined],
    ['v:"x"', undefined],
    ["f:name", undefined],
  ])("%s is called %s", (item, name) => {
    expect(itemKey(item, "name")).toBe(name);
  });
});
