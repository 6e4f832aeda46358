import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { MarkId } from "./mark.ts";
import { mergeContributions } from "./merge.ts";
import type { NodePlan } from "./plan.ts";
import { planNode } from "./plan.ts";
import { MAX_RECORD_BYTES, parseRecord, stringifyRecord } from "./record.ts";
import { planWith, settle } from "./testing/labels.ts";
import { capabilityOf, wish } from "./testing/stub.ts";
import { editNode, makeNode, type NodeInit, patchNode } from "./testing/world.ts";

const MARKS = "berth.dev/marks";

/** A record of these marks, all of the made-up capability `a` unless said otherwise. */
function recordOf(ids: readonly MarkId[], more: { c?: string; r?: string; by?: string } = {}): string {
  const { c = "a", r = "made-up/rule", by = "berth" } = more;
  const since = "2025-01-01T00:00:00Z";
  const marks = new Map(ids.map((id) => [id, { capability: c, rule: r, since, by }]));
  return stringifyRecord({ by, marks }) ?? "";
}

function owning(ids: readonly MarkId[], init: NodeInit = {}, more: Parameters<typeof recordOf>[1] = {}) {
  return makeNode({ ...init, annotations: { ...init.annotations, [MARKS]: recordOf(ids, more) } });
}

const ownersOf = (node: Node): string[] => {
  const read = parseRecord(node.metadata?.annotations?.[MARKS] ?? "");
  return read.state === "read" ? [...read.record.marks].map(([id, { by }]) => `${id} ${by}`) : [];
};
const brief = (plan: NodePlan): string[] =>
  plan.changes.map(({ id, action, reason }) => `${id} ${action} ${reason}`);
const nothing = capabilityOf("a", []);
const wantsX = capabilityOf("a", [wish("label/x", "1")]);

describe("what a plan does", () => {
  it("adds what is missing, with its record, in one patch that carries uid and resourceVersion", () => {
    const node = makeNode({ labels: { other: "x" } });
    const wants = capabilityOf("a", [
      wish("label/x", "1"),
      wish("annotation/example.com/y", "2"),
      wish("taint/t:NoSchedule", "3"),
      wish("unschedulable", "true"),
    ]);
    const { patch } = planWith(node, [wants]);
    expect(patch).toEqual({
      metadata: {
        uid: "uid-n1",
        resourceVersion: "1",
        labels: { x: "1" },
        annotations: { "example.com/y": "2", [MARKS]: expect.any(String) },
      },
      spec: { taints: [{ key: "t", value: "3", effect: "NoSchedule" }], unschedulable: true },
    });
    const text = patch?.metadata.annotations?.[MARKS] ?? "";
    expect(JSON.parse(text)).toMatchObject({
      v: 1,
      by: "berth",
      marks: { "label/x": { c: "a", r: "made-up/rule", since: "2026-01-01T00:00:00Z" } },
    });
  });

  it("removes what it recorded and no longer wants, and drops the record with the last mark", () => {
    const node = owning(["label/x", "annotation/y", "taint/t:NoSchedule", "unschedulable"], {
      labels: { x: "1", keep: "1" },
      annotations: { y: "2" },
      taints: [{ key: "t", effect: "NoSchedule" }],
      unschedulable: true,
    });
    expect(planWith(node, [nothing]).patch).toEqual({
      metadata: {
        uid: "uid-n1",
        resourceVersion: "1",
        labels: { x: null },
        annotations: { y: null, [MARKS]: null },
      },
      spec: { taints: null, unschedulable: null },
    });
  });

  it("adopts a wanted mark that already stands, by a write of the record alone", () => {
    const node = makeNode({ labels: { x: "1" } });
    const plan = planWith(node, [wantsX]);
    expect(brief(plan)).toEqual(["label/x adopt Adopted"]);
    expect(Object.keys(plan.patch?.metadata.annotations ?? {})).toEqual([MARKS]);
    expect(plan.patch?.metadata.labels).toBeUndefined();
  });

  it("records a new owner of a standing mark, and since when it has been ours stays", () => {
    const node = owning(["label/x"], { labels: { x: "1" } }, { c: "gone" });
    const plan = planWith(node, [wantsX]);
    expect(brief(plan)).toEqual(["label/x record OwnerChanged"]);
    expect(plan.changes[0]?.entry).toMatchObject({ capability: "a", since: "2025-01-01T00:00:00Z" });
  });

  it("drops the record of a mark that is neither wanted nor there", () => {
    expect(brief(planWith(owning(["label/x"]), [nothing]))).toEqual(["label/x record AlreadyGone"]);
  });

  it("writes nothing when everything stands, however the record is spaced", () => {
    const text = JSON.stringify(JSON.parse(recordOf(["label/x"])), undefined, 2);
    const node = makeNode({ labels: { x: "1" }, annotations: { [MARKS]: text } });
    expect(planWith(node, [wantsX]).patch).toBeUndefined();
  });

  it("says why a mark goes: its input, its rule, or what the capability says", () => {
    const node = (r: string) => owning(["label/x"], { labels: { x: "1" } }, { r });
    expect(brief(planWith(node("made-up/rule"), [nothing]))).toEqual(["label/x remove InputGone"]);
    expect(brief(planWith(node("made-up/deleted"), [nothing]))).toEqual(["label/x remove RuleGone"]);
    const removals = new Map([["label/x", "ExclusiveKeyPruned"] as const]);
    const says = capabilityOf("a", [], { decision: { removals } });
    expect(brief(planWith(node("made-up/rule"), [says]))).toEqual(["label/x remove ExclusiveKeyPruned"]);
  });
});

describe("taints", () => {
  const theirs = [
    { key: "node.kubernetes.io/not-ready", effect: "NoExecute", timeAdded: "2026-01-01T00:00:00Z" },
    { key: "t", value: "old", effect: "NoSchedule" },
    { key: "dedicated", value: "db", effect: "NoSchedule" },
  ];

  it("of others stay as they are and in their order; ours changes in place", () => {
    const wants = capabilityOf("a", [wish("taint/t:NoSchedule", "new"), wish("taint/z:NoExecute", "")]);
    const { patch } = planWith(makeNode({ taints: theirs }), [wants]);
    expect(patch?.spec?.taints).toEqual([
      theirs[0],
      { key: "t", value: "new", effect: "NoSchedule" },
      theirs[2],
      { key: "z", effect: "NoExecute" },
    ]);
  });

  it("of others stay when ours is removed", () => {
    const node = owning(["taint/t:NoSchedule"], { taints: theirs });
    expect(planWith(node, [nothing]).patch?.spec?.taints).toEqual([theirs[0], theirs[2]]);
  });
});

describe("what a plan never touches", () => {
  it.each([
    ["a mark of another installation", { by: "other" }, "OtherInstallation"],
    ["a mark of a capability that does not run here", { c: "b" }, "SourceNotRead"],
    ["a mark whose source was not read", { r: "crd/rule" }, "SourceNotRead"],
  ])("%s", (_what, more, reason) => {
    const plan = planWith(owning(["label/x"], { labels: { x: "1" } }, more), [nothing]);
    expect(plan.patch).toBeUndefined();
    expect(plan.stays).toMatchObject([{ id: "label/x", reason }]);
  });

  it("a mark of another installation with another value, even when a rule wants the place", () => {
    const node = owning(["label/x"], { labels: { x: "1" } }, { by: "other" });
    const plan = planWith(node, [capabilityOf("a", [wish("label/x", "2")])]);
    expect(plan.patch).toBeUndefined();
    expect(plan.findings).toMatchObject([{ reason: "OtherInstallation", subject: "label/x" }]);
  });

  it("but not a place that another installation recorded and where nothing stands: that becomes ours", () => {
    const node = owning(["label/x"], {}, { by: "other" });
    const after = settle(node, [wantsX]);
    expect(ownersOf(after)).toEqual(["label/x berth"]);
    expect(planWith(after, [nothing]).changes).toMatchObject([{ id: "label/x", action: "remove" }]);
  });

  it("the entries of another installation when it adds its own", () => {
    const node = owning(["label/x"], { labels: { x: "1" } }, { by: "other" });
    const after = settle(node, [capabilityOf("a", [wish("label/y", "2")])]);
    expect(ownersOf(after)).toEqual(["label/x other", "label/y berth"]);
    expect(planWith(after, [nothing]).changes.map(({ id }) => id)).toEqual(["label/y"]);
  });

  it("a recorded key under a protected domain that the policy does not declare: a forged record gains nothing", () => {
    const id = "label/node-role.kubernetes.io/control-plane";
    const node = owning([id], { labels: { "node-role.kubernetes.io/control-plane": "" } });
    const plan = planWith(node, [nothing]);
    expect(plan.patch).toBeUndefined();
    expect(plan.stays).toMatchObject([{ id, reason: "ProtectedKey" }]);
    const set = { ids: new Set([id]), prefixes: [] };
    const declares = capabilityOf("a", [], { policy: { declared: set, allowedProtected: set } });
    expect(brief(planWith(node, [declares]))).toEqual([`${id} remove InputGone`]);
  });

  it("a foreign value where the rule does not overwrite", () => {
    const wants = capabilityOf("a", [wish("label/x", "1", { foreign: "leave" })]);
    const plan = planWith(makeNode({ labels: { x: "2" } }), [wants]);
    expect(plan.patch).toBeUndefined();
    expect(plan.findings).toMatchObject([{ reason: "ForeignValueKept" }]);
    const ours = planWith(owning(["label/x"], { labels: { x: "2" } }), [wants]);
    expect(brief(ours)).toEqual(["label/x overwrite ValueRestored"]);
  });

  it("a place in conflict, whatever stands there", () => {
    const node = owning(["label/x"], { labels: { x: "1" } });
    const plan = planWith(node, [wantsX, capabilityOf("b", [wish("label/x", "2")])]);
    expect(plan.patch).toBeUndefined();
    expect(plan.stays).toMatchObject([{ reason: "MarkConflict" }]);
  });

  it("a node that is being deleted", () => {
    const node = makeNode();
    const going = { ...node, metadata: { ...node.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
    const plan = planWith(going, [wantsX]);
    expect(plan.patch).toBeUndefined();
    expect(plan.findings).toMatchObject([{ reason: "NodeDeleting", severity: "info" }]);
  });
});

describe("exclusive keys", () => {
  const exclusive = {
    ids: new Set<string>(),
    prefixes: ["taint/supported-arch:", "annotation/ate.dev/claim."],
  };
  const onlyX = { ids: new Set(["label/x"]), prefixes: [] };
  const x = capabilityOf("a", [], { policy: { exclusive: onlyX } });
  const owner = capabilityOf("a", [wish("taint/supported-arch:NoSchedule", "arm64")], {
    policy: { exclusive },
  });

  it("are corrected and pruned, whoever set them, and nothing beside them", () => {
    const node = makeNode({
      taints: [
        { key: "supported-arch", value: "amd64", effect: "NoSchedule" },
        { key: "supported-arch", value: "amd64", effect: "NoExecute" },
        { key: "supported-arch-2", effect: "NoSchedule" },
      ],
      annotations: { "ate.dev/claim.forged": "", "ate.dev/other": "x" },
    });
    const plan = planWith(node, [owner]);
    expect(brief(plan)).toEqual([
      "annotation/ate.dev/claim.forged remove ExclusiveKeyPruned",
      "taint/supported-arch:NoExecute remove ExclusiveKeyPruned",
      "taint/supported-arch:NoSchedule overwrite ForeignValueReplaced",
    ]);
    expect(plan.patch?.spec?.taints).toEqual([
      { key: "supported-arch", value: "arm64", effect: "NoSchedule" },
      { key: "supported-arch-2", effect: "NoSchedule" },
    ]);
  });

  it("are pruned once, where two capabilities claim them", () => {
    const both = [x, capabilityOf("b", [], { policy: { exclusive: onlyX } })];
    const plan = planWith(makeNode({ labels: { x: "1" } }), both);
    expect(brief(plan)).toEqual(["label/x remove ExclusiveKeyPruned"]);
  });

  it("stay when another installation recorded them, and go once for the reason that their rule gives", () => {
    const theirs = planWith(owning(["label/x"], { labels: { x: "1" } }, { by: "other" }), [x]);
    expect(theirs.patch).toBeUndefined();
    expect(theirs.stays).toMatchObject([{ reason: "OtherInstallation" }]);
    const ours = planWith(owning(["label/x"], { labels: { x: "1" } }), [x]);
    expect(brief(ours)).toEqual(["label/x remove InputGone"]);
  });
});

describe("a record that cannot be relied on", () => {
  it.each(["{", '{"v":2,"by":"berth","marks":{}}'])("freezes removals while it reads %s", (text) => {
    const exclusive = { ids: new Set(["label/mine"]), prefixes: [] };
    const wants = capabilityOf("a", [wish("label/new", "1")], { policy: { exclusive } });
    const node = makeNode({ labels: { mine: "1" }, annotations: { [MARKS]: text } });
    const plan = planWith(node, [wants]);
    expect(brief(plan)).toEqual(["label/new add RuleMatched"]);
    expect(plan.patch?.metadata.annotations).toBeUndefined();
    expect(plan.findings).toMatchObject([{ reason: "RecordUnreadable", severity: "warning" }]);
    expect(planWith(patchNode(node, plan.patch ?? {}), [wants]).patch).toBeUndefined();
  });

  it("is written again from the last one seen when it vanishes", () => {
    const lastRecord = recordOf(["label/x"]);
    const node = makeNode({ labels: { x: "1" } });
    const plan = planWith(node, [wantsX], { lastRecord });
    expect(brief(plan)).toEqual(["annotation/berth.dev/marks record RecordRestored"]);
    expect(plan.patch?.metadata.annotations).toEqual({ [MARKS]: lastRecord });
    expect(brief(planWith(node, [nothing], { lastRecord }))).toEqual(["label/x remove InputGone"]);
  });

  it("that is lost: what is wanted is adopted again, the rest is listed", () => {
    const declared = { ids: new Set(["label/x", "label/old"]), prefixes: [] };
    const wants = capabilityOf("a", [wish("label/x", "1")], { policy: { declared } });
    const node = makeNode({ labels: { x: "1", old: "1", foreign: "1" } });
    const merged = mergeContributions([wants.contribute({ node, owned: new Map() }, 0)]);
    const plan = planNode({ node, merged, installation: "berth", now: 0, listUnrecorded: true });
    expect(brief(plan)).toEqual(["label/x adopt Adopted"]);
    expect(plan.findings).toMatchObject([{ reason: "Unrecorded", severity: "info", subject: "label/old" }]);
  });

  it("that is full takes no more, and still lets go", () => {
    const many = Array.from({ length: 2000 }, (_, i) => wish(`label/x${i}`, "1"));
    const node = owning(["label/old"], { labels: { old: "1" } });
    const plan = planWith(node, [capabilityOf("a", many)]);
    expect(brief(plan)).toEqual(["label/old remove InputGone"]);
    expect(plan.findings).toMatchObject([{ reason: "AnnotationsFull" }]);
  });

  it("never makes the annotations of a node larger than the server takes", () => {
    const node = makeNode({ annotations: { big: "x".repeat(4 * MAX_RECORD_BYTES - 10) } });
    expect(planWith(node, [wantsX]).patch).toBeUndefined();
  });
});

describe("a mark that goes and comes", () => {
  it("carries the version it was decided on, so a change in between makes it fail", () => {
    const node = editNode(makeNode(), { labels: { other: "1" } });
    expect(planWith(node, [wantsX]).patch?.metadata.resourceVersion).toBe("2");
  });
});

describe("S-7 a record that the node's kubelet has forged", () => {
  const forged = ["taint/dedicated:NoSchedule", "unschedulable"] as const;
  const node = owning([...forged, "taint/gone:NoSchedule", "label/x"], {
    labels: { x: "1" },
    taints: [{ key: "dedicated", value: "db", effect: "NoSchedule" }],
    unschedulable: true,
  });
  const after = (places: readonly MarkId[], declared: readonly MarkId[] = []): object => {
    const capability = capabilityOf("a", [], { policy: { places: new Set(places) } });
    const plan = planWith(node, [capability], { declared: new Set(declared) });
    return { ...patchNode(node, plan.patch ?? {}).spec, stays: plan.stays.map(({ reason }) => reason) };
  };

  it("takes off no taint and no cordon at a place that was never declared", () => {
    const stays = ["PlaceNotDeclared", "PlaceNotDeclared"];
    expect(after([])).toEqual({ ...node.spec, stays });
    expect(after(["taint/dedicated:NoExecute"], ["taint/other:NoSchedule"])).toEqual({ ...node.spec, stays });
    const brief = planWith(node, [nothing], { declared: new Set() }).changes.map(({ id }) => id);
    expect(brief).toEqual(["label/x", "taint/gone:NoSchedule"]);
  });

  it("is believed at places that rules declare, or have declared earlier", () => {
    expect(after(forged)).toEqual({ stays: [] });
    expect(after([], forged)).toEqual({ stays: [] });
  });
});
