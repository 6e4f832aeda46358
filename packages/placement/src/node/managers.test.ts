import type { ManagedFieldsEntry } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { holdersOf, rivalOf } from "./managers.ts";

const time = "2026-01-01T00:00:00Z";
const holds = (
  manager: string,
  fieldsV1: Record<string, unknown>,
  more: ManagedFieldsEntry = {},
): ManagedFieldsEntry => ({ manager, operation: "Update", time, fieldsV1, ...more });
const label = (key: string) => ({ "f:metadata": { "f:labels": { [`f:${key}`]: {} } } });

describe("who holds a place of a node", () => {
  const fields = [
    holds("kubelet", { "f:status": {} }, { subresource: "status" }),
    holds("nfd", label("x")),
    holds("berth", label("x")),
    holds("admin", { "f:spec": { "f:taints": {}, "f:unschedulable": {} } }, { time: "2026-02-01T00:00:00Z" }),
    holds("claims", { "f:metadata": { "f:annotations": { "f:example.com/c": {} } } }),
  ];

  it.each([
    ["label/x", ["berth", "nfd"]],
    ["label/y", []],
    ["annotation/example.com/c", ["claims"]],
    ["taint/t:NoSchedule", ["admin"]],
    ["unschedulable", ["admin"]],
  ] as const)("%s: %j", (id, managers) => {
    expect(holdersOf(fields, id).map(({ manager }) => manager)).toEqual(managers);
  });

  it("names the rival as the other holder", () => {
    expect(rivalOf(fields, "label/x")).toBe("nfd");
  });

  it("takes the last writer of the node when nobody holds the place any more", () => {
    expect(rivalOf(fields, "label/gone")).toBe("admin");
    expect(rivalOf([holds("berth", label("x"))], "label/gone")).toBeUndefined();
  });

  it("answers for entries of any shape", () => {
    expect(holdersOf([{}, { manager: "m", fieldsV1: { "f:metadata": 1 } }], "label/x")).toEqual([]);
  });
});
