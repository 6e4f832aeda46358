import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { planClean } from "./clean.ts";
import { folderOf, labelsFrom, settle } from "./testing/labels.ts";
import { makeNode, patchNode } from "./testing/world.ts";

const MARKS = "berth.dev/marks";
const since = "2026-01-01T00:00:00Z";
const record = (marks: Record<string, object>) => JSON.stringify({ v: 1, by: "berth", marks });

const clean = (node: Node, more: Partial<Parameters<typeof planClean>[0]> = {}) =>
  planClean({ node, installation: "berth", ...more });

describe("cleaning a node", () => {
  it("removes every mark of ours with its record in one patch, and nothing else", () => {
    const rules = labelsFrom(folderOf({ a: "x", b: "a" }));
    const node = settle(makeNode({ labels: { x: "1", own: "2" } }), [rules]);
    const { patch, changes } = clean(node);
    const made = changes.map(({ id, reason }) => `${id} ${reason}`);
    expect(made).toEqual(["label/a Cleaned", "label/b Cleaned"]);
    const after = patchNode(node, patch ?? {});
    expect(after.metadata?.labels).toEqual({ x: "1", own: "2" });
    expect(after.metadata?.annotations).toEqual({});
    expect(clean(after).patch).toBeUndefined();
  });

  it("leaves the marks and the record of another installation", () => {
    const marks = {
      "label/a": { c: "labels", r: "folder/a", since },
      "label/b": { c: "labels", r: "folder/b", since, by: "other" },
    };
    const node = makeNode({ labels: { a: "true", b: "true" }, annotations: { [MARKS]: record(marks) } });
    const { patch, stays } = clean(node);
    expect(stays).toMatchObject([{ id: "label/b", reason: "OtherInstallation" }]);
    const after = patchNode(node, patch ?? {});
    expect(after.metadata?.labels).toEqual({ b: "true" });
    expect(after.metadata?.annotations?.[MARKS]).toContain('"label/b"');
  });

  it("removes a recorded key under a protected domain only when it is named", () => {
    const key = "node-role.kubernetes.io/edge";
    const marks = { [`label/${key}`]: { c: "labels", r: "folder/x", since } };
    const node = makeNode({ labels: { [key]: "true" }, annotations: { [MARKS]: record(marks) } });
    expect(clean(node)).toMatchObject({ changes: [], stays: [{ reason: "ProtectedKey" }] });
    const named = clean(node, { keys: [key] });
    expect(named.patch?.metadata.labels).toEqual({ [key]: null });
  });

  it("removes leftovers by key or by mark", () => {
    const node = makeNode({
      labels: { "a/b": "true", c: "true" },
      annotations: { "a/b": "x" },
      taints: [
        { key: "c", effect: "NoSchedule" },
        { key: "d", effect: "NoExecute" },
      ],
    });
    const byKey = clean(node, { keys: ["a/b"] });
    expect(byKey.changes.map(({ id }) => id)).toEqual(["annotation/a/b", "label/a/b"]);
    const byMark = clean(node, { keys: ["taint/c:NoSchedule"] });
    expect(byMark.patch?.spec?.taints).toEqual([{ key: "d", effect: "NoExecute" }]);
    expect(byMark.patch?.metadata.labels).toBeUndefined();
  });

  it("removes nothing that is not named while the record cannot be read, and then the record if named", () => {
    const node = makeNode({ labels: { a: "true" }, annotations: { [MARKS]: "{" } });
    expect(clean(node).patch).toBeUndefined();
    const named = clean(node, { keys: [MARKS] });
    expect(named.patch?.metadata.annotations).toEqual({ [MARKS]: null });
  });
});

describe("cleaning one capability", () => {
  const marks = {
    "label/a": { c: "labels", r: "folder/a", since },
    "taint/supported-arch:NoSchedule": { c: "architecture", r: "cluster/p", since },
    "taint/kubernetes.io/arch:NoSchedule": { c: "architecture", r: "cluster/gke", since },
  };
  const node = makeNode({
    labels: { a: "true" },
    annotations: { [MARKS]: record(marks) },
    taints: [
      { key: "supported-arch", value: "arm64", effect: "NoSchedule" },
      { key: "kubernetes.io/arch", value: "arm64", effect: "NoSchedule" },
    ],
  });
  const only = { node, installation: "berth", capability: "architecture" };
  const idsOf = (input: Parameters<typeof planClean>[0]): readonly string[] =>
    planClean(input).changes.map(({ id }) => id);

  it("leaves the marks of the others, and their record", () => {
    const after = patchNode(node, planClean({ ...only, recorded: true }).patch ?? {});
    expect(after.metadata?.labels).toEqual({ a: "true" });
    expect(after.metadata?.annotations?.[MARKS]).toContain('"label/a"');
    expect(after.metadata?.annotations?.[MARKS]).not.toContain("supported-arch");
  });

  it("S-7 takes a recorded taint off where it was declared, and others only when told", () => {
    const taints = ["taint/kubernetes.io/arch:NoSchedule", "taint/supported-arch:NoSchedule"] as const;
    const { changes, stays } = planClean(only);
    expect(changes).toEqual([]);
    expect(stays.map(({ id, reason }) => `${id} ${reason}`).toSorted()).toEqual(
      taints.map((id) => `${id} PlaceNotDeclared`),
    );
    expect(idsOf({ ...only, declared: new Set(taints) }).toSorted()).toEqual(taints);
    // What Kubernetes may have set has to be named.
    expect(idsOf({ ...only, recorded: true })).toEqual([taints[1]]);
    expect(idsOf({ ...only, keys: ["kubernetes.io/arch"] })).toEqual([taints[0]]);
  });

  it("takes what is named off besides, whoever has set it", () => {
    const keys = ["taint/supported-arch:NoExecute"];
    const old = { key: "supported-arch", value: "other", effect: "NoExecute" };
    const both = makeNode({ taints: [old, { ...old, effect: "NoSchedule" }] });
    expect(idsOf({ ...only, node: both, keys })).toEqual(keys);
  });
});
