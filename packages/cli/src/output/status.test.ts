import { type Remarked, stateOf, styleFor } from "@berth/host";
import type { Condition } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { foreignKinds, servedKinds } from "../kinds.ts";
import { formatStatus, type RemarkLine } from "./status.ts";

const plain = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });
const kinds = [...servedKinds, ...foreignKinds()];

function a(type: string, reason: string, status: Condition["status"] = "True"): Condition {
  return { type, status, reason, message: "why", lastTransitionTime: "2026-01-01T00:00:00Z" };
}

/** What is shown of an object of this kind with this status: `!` before what needs a person. */
function said(kind: string, status: object, ...conditions: readonly Condition[]): readonly string[] {
  const { shown } = kinds.find(({ resource }) => resource.kind === kind) ?? {};
  const ready = a(shown?.condition ?? "Ready", "InForce");
  const isGiven = conditions.some(({ type }) => type === ready.type);
  const object: Remarked = {
    status: { ...status, conditions: [...(isGiven ? [] : [ready]), ...conditions] },
  };
  return stateOf(object, shown).remarks.map(({ text, needsPerson }) => `${needsPerson ? "!" : ""}${text}`);
}

describe("what is said about an object", () => {
  it.each([
    ["LabelRule", {}, [], []],
    ["LabelRule", { pendingRemovals: 2 }, [], ["takes its labels off 2 nodes next"]],
    ["LabelRule", { pendingRemovals: 2 }, [a("RemovalsFrozen", "RemovalsFrozen")], ["!RemovalsFrozen: why"]],
    ["LabelRule", {}, [a("Ready", "RuleConflict", "False")], ["!RuleConflict: why"]],
    ["StartupGate", { heldNodes: 2, timedOutNodes: 0 }, [], ["holds 2 nodes"]],
    [
      "StartupGate",
      { heldNodes: 2, timedOutNodes: 1 },
      [],
      ["!holds 2 nodes, 1 of them longer than a timeout"],
    ],
    ["StartupGate", {}, [a("Admission", "AdmissionOff", "False")], ["AdmissionOff: why"]],
    ["StartupGate", {}, [a("DirectBinding", "AdmissionFailed", "False")], ["!AdmissionFailed: why"]],
    [
      "ArchitecturePolicy",
      {},
      [a("Tainting", "ArchitectureBootstrapping", "False")],
      ["ArchitectureBootstrapping: why"],
    ],
    ["ArchitecturePolicy", {}, [a("Tainting", "BootstrapHeld", "False")], ["!BootstrapHeld: why"]],
    [
      "ArchitecturePolicy",
      { waitingPods: 1, impossiblePods: 1 },
      [],
      ["!1 pod can run nowhere", "1 pod wait for their images to be looked up"],
    ],
    ["NodeFootprint", { nodes: { pending: 3 } }, [], ["labels 3 nodes next"]],
    [
      "NodeFootprint",
      { nodes: { unknown: 1 } },
      [],
      ["does not know of 1 nodes whether they need the agent"],
    ],
    ["NodeFootprint", {}, [a("AgentPlaced", "AgentTaint", "False")], ["!AgentTaint: why"]],
    ["NodeFootprint", {}, [a("OwnersHeld", "FootprintHindered", "Unknown")], ["!FootprintHindered: why"]],
    [
      "NodeFootprint",
      { holds: [{ name: "a/b", since: "2026-01-01T00:00:00Z" }] },
      [a("OwnersHeld", "OwnerHeld")],
      ["holds the deletion of a/b since 2026-01-01T00:00:00Z"],
    ],
    [
      "DeschedulePolicy",
      { lostPods: 2, evictionsInProgress: 1 },
      [],
      ["2 pods on a wrong node, 1 being replaced"],
    ],
    [
      "DeschedulePolicy",
      { lostPods: 2 },
      [a("EvictionsFrozen", "EvictionsFrozen")],
      ["!EvictionsFrozen: why", "2 pods on a wrong node"],
    ],
    ["DeschedulePolicy", { givenUpOwners: 1 }, [], ["!1 owner given up: its pods came back"]],
    [
      "Cell",
      { since: "2026-01-01T00:00:00Z" },
      [a("Reachable", "CellUnheard", "False")],
      ["!CellUnheard: why", "is not heard since 2026-01-01T00:00:00Z"],
    ],
  ])("%s %j", (kind, status, conditions, expected) => {
    expect(said(kind, status, ...conditions)).toEqual(expected);
  });

  it("asks a person about a version that no running process has seen", () => {
    const unseen = { state: "unseen", remarks: [{ needsPerson: true }] };
    expect(stateOf({ metadata: { generation: 1 } })).toMatchObject(unseen);
    const old = { ...a("Ready", "InForce"), observedGeneration: 1 };
    expect(stateOf({ metadata: { generation: 2 }, status: { conditions: [old] } })).toMatchObject(unseen);
  });
});

describe("the screen", () => {
  const now = Date.parse("2026-01-01T00:10:00Z");
  const since = "2026-01-01T00:00:00Z";

  it("is one: documents by kind, what needs a person, and what goes on", () => {
    const documents = [
      { kind: "LabelRule", isRead: true, inForce: 2, faulty: 1, unseen: 0 },
      { kind: "StartupGate", isRead: true, inForce: 0, faulty: 0, unseen: 0 },
      { kind: "Cell", isRead: false, inForce: 0, faulty: 0, unseen: 0 },
    ];
    const nodes = [{ node: "n1", since }, { node: "n2" }];
    const remarks: RemarkLine[] = [
      { object: "lease/berth", text: "leader berth-1", needsPerson: false, since },
      { object: "startupgate/network", text: "holds 2 nodes", needsPerson: false, nodes },
      { object: "labelrule/gpu", text: "RuleConflict: why", needsPerson: true },
    ];
    expect(formatStatus({ documents, remarks, now }, plain)).toBe(`DOCUMENTS   IN FORCE   FAULTY   UNSEEN
LabelRule   2          1        0

Not served, or not readable: Cell

Needs a person
  labelrule/gpu   RuleConflict: why

Goes on by itself
  lease/berth           leader berth-1 (10m)
  startupgate/network   holds 2 nodes: n1 (10m), n2
`);
  });

  it("names the first of many", () => {
    const remarks = Array.from({ length: 22 }, (_, at) => ({
      object: `a/${at}`,
      text: "x",
      needsPerson: true,
    }));
    const text = formatStatus({ documents: [], remarks, now }, plain);
    expect(text).toMatch(/^There is no document of Berth\.\n\nNeeds a person\n/);
    expect(text).toMatch(/ {2}a\/19 {3}x\n {2}… and 2 more: -o json lists them\n$/);
  });
});
