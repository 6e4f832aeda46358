import type { Node, Taint } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { BoundCapability } from "../node/capability.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { NEW_YEAR, planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode, type NodeInit } from "../node/testing/world.ts";
import { bindArchitecture } from "./capability.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { type PolicyInit, policiesOf } from "./testing/policies.ts";

const GKE = "kubernetes.io/arch";
const arm64: Taint = { key: "supported-arch", value: "arm64", effect: "NoSchedule" };
const amd64: Taint = { ...arm64, value: "amd64" };
const dedicated: Taint = { key: "dedicated", value: "db", effect: "NoExecute" };
const notReady: Taint = { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" };

const nodeWith = (init: NodeInit = {}, architecture: unknown = "arm64"): Node => {
  const nodeInfo = { architecture } as NonNullable<NonNullable<Node["status"]>["nodeInfo"]>;
  return { ...makeNode(init), status: { nodeInfo } };
};
const boundTo = (policies: ArchitecturePolicies | undefined, tainting = true): BoundCapability =>
  bindArchitecture({ policies: () => policies, tainting: () => tainting });
const bound = (policies: Readonly<Record<string, PolicyInit>>, tainting = true): BoundCapability =>
  boundTo(policiesOf(policies), tainting);
const tainting = bound({ p: {} });
const bootstrapping = bound({ p: {} }, false);
const taintsAfter = (node: Node, capability = tainting): readonly Taint[] =>
  settle(node, [capability]).spec?.taints ?? [];
const changesOf = (node: Node, capability = tainting): readonly string[] =>
  planWith(node, [capability]).changes.map(({ action, id, reason }) => `${action} ${id} ${reason}`);
const phaseOf = (node: Node, capability: BoundCapability): string => {
  const owned = ownedMarks(recordOf(node), "berth");
  const { outcomes = [] } = capability.contribute({ node, owned }, NEW_YEAR).decision;
  return outcomes.map(({ rule, phase }) => `${rule} ${phase}`).join(", ");
};

describe("the architecture taint of a node", () => {
  it("A-P1 is put on once, and leaves taints, labels and annotations of others as they are", () => {
    const node = nodeWith({ taints: [dedicated], labels: { a: "1" }, annotations: { b: "2" } });
    const after = settle(node, [tainting]);
    expect(after.spec).toEqual({ taints: [dedicated, arm64] });
    expect(after.metadata?.labels).toEqual({ a: "1" });
    expect(after.metadata?.annotations).toMatchObject({ b: "2" });
    expect(changesOf(after)).toEqual([]);
  });

  it("A-P2 with another value is replaced in its place", () => {
    expect(taintsAfter(nodeWith({ taints: [amd64, dedicated] }))).toEqual([arm64, dedicated]);
  });

  it("A-P3 that stands is not written again", () => {
    const adopted = settle(nodeWith({ taints: [dedicated, arm64] }), [tainting]);
    expect(changesOf(adopted)).toEqual([]);
    expect(changesOf(editNode(adopted, { labels: { other: "1" } }))).toEqual([]);
  });

  it("A-P9 is restored when somebody takes it off", () => {
    const node = settle(nodeWith(), [tainting]);
    const without = editNode(node, { spec: { taints: [dedicated] } });
    expect(changesOf(without)).toEqual(["add taint/supported-arch:NoSchedule MarkRestored"]);
  });

  it("A-P14 of another controller is adopted as it stands: only the record is written", () => {
    const node = nodeWith({ taints: [dedicated, arm64] });
    expect(changesOf(node)).toEqual(["adopt taint/supported-arch:NoSchedule Adopted"]);
    expect(taintsAfter(node)).toEqual([dedicated, arm64]);
    expect(phaseOf(node, bootstrapping)).toBe("cluster/p Tainted");
  });

  it("comes on every node: of the control plane, cordoned, not ready", () => {
    const node = nodeWith({
      labels: { "node-role.kubernetes.io/control-plane": "" },
      taints: [{ key: "node-role.kubernetes.io/control-plane", effect: "NoSchedule" }, notReady],
      unschedulable: true,
    });
    expect(changesOf(node)).toEqual(["add taint/supported-arch:NoSchedule ArchitectureTainted"]);
  });

  it("is, at the original key, the only one: others of whatever effect go", () => {
    const noExecute: Taint = { ...amd64, effect: "NoExecute" };
    expect(taintsAfter(nodeWith({ taints: [noExecute, dedicated] }))).toEqual([dedicated, arm64]);
    const others = [
      { ...noExecute, key: GKE },
      { ...amd64, key: GKE },
    ];
    const gke = bound({ p: { taint: { key: GKE } } });
    expect(taintsAfter(nodeWith({ taints: others }), gke)).toEqual([others[0], { ...arm64, key: GKE }]);
  });

  it("is one where several policies have the same key, and the first that taints owns it", () => {
    const policies = policiesOf({ a: { priority: 1 }, b: {} });
    const onlyB = bindArchitecture({ policies: () => policies, tainting: (rule) => rule === "cluster/b" });
    for (const [capability, rule] of [
      [boundTo(policies), "cluster/a"],
      [onlyB, "cluster/b"],
    ] as const) {
      const { decision } = capability.contribute({ node: nodeWith(), owned: new Map() }, NEW_YEAR);
      expect(decision.marks.map(({ rule: by }) => by)).toEqual([rule]);
      expect(decision.keep.size).toBe(0);
    }
  });

  it("comes only where the policy selects the node", () => {
    const pool = bound({ p: { taint: { nodeSelector: { matchLabels: { pool: "a" } } } } });
    expect(taintsAfter(nodeWith({ labels: { pool: "a" } }), pool)).toEqual([arm64]);
    expect(taintsAfter(nodeWith({ labels: { pool: "b" } }), pool)).toEqual([]);
  });

  it("goes at once when its policy is deleted, and whatever else is declared stays", () => {
    const node = settle(nodeWith({ taints: [dedicated] }), [tainting]);
    expect(changesOf(node, bound({}))).toEqual(["remove taint/supported-arch:NoSchedule RuleGone"]);
    expect(taintsAfter(node, bound({}))).toEqual([dedicated]);
  });

  it("goes with the key of the node's cloud where that was declared, and stays elsewhere", () => {
    const node = settle(nodeWith(), [bound({ p: { taint: { key: GKE } } })]);
    expect(taintsAfter(node, bound({}))).toEqual([]);
    expect(planWith(node, [bound({})], { declared: new Set() }).patch).toBeUndefined();
  });

  it("goes when its policy does without taints from now on", () => {
    const node = settle(nodeWith(), [tainting]);
    const gone = ["remove taint/supported-arch:NoSchedule InputGone"];
    for (const p of [{ mode: "Affinity" as const }, { taint: { nodes: "Leave" as const } }])
      expect(changesOf(node, bound({ p }))).toEqual(gone);
  });

  it("stays while its policy may not have been read", () => {
    const node = settle(nodeWith(), [tainting]);
    expect(changesOf(node, boundTo(undefined))).toEqual([]);
    expect(changesOf(node, boundTo(policiesOf({}, { unsettled: "reading" })))).toEqual([]);
  });
});

describe("the taint of a node during the bootstrap", () => {
  it("A-B7 is not put on, and says why", () => {
    expect(taintsAfter(nodeWith({ taints: [dedicated] }), bootstrapping)).toEqual([dedicated]);
    const [finding] = planWith(nodeWith(), [bootstrapping]).findings;
    expect(finding).toMatchObject({ reason: "ArchitectureBootstrapping", severity: "info" });
    expect(phaseOf(nodeWith(), bootstrapping)).toBe("cluster/p Untainted");
  });

  it("A-P14 that another controller has put on stays as it is", () => {
    const taints = [arm64, { ...amd64, effect: "NoExecute" }];
    expect(changesOf(nodeWith({ taints }), bootstrapping)).toEqual([]);
  });

  it("that is recorded as ours stays, and ends it", () => {
    const node = settle(nodeWith(), [tainting]);
    expect(changesOf(node, bootstrapping)).toEqual([]);
    expect(phaseOf(node, bootstrapping)).toBe("cluster/p Tainted");
  });

  it("does not end where somebody else has put on a key that is not ours alone", () => {
    const taints = [{ key: GKE, value: "arm64", effect: "NoSchedule" }];
    const gke = bound({ p: { taint: { key: GKE } } }, false);
    expect(phaseOf(nodeWith({ taints }), gke)).toBe("cluster/p TaintedByOthers");
    expect(changesOf(nodeWith({ taints }), gke)).toEqual([]);
  });
});

describe("a node that does not say its architecture", () => {
  it.each([[""], [64], [null]])("%j: what stands stays", (architecture) => {
    const node = nodeWith({ taints: [amd64] }, architecture);
    const plan = planWith(node, [tainting]);
    expect(plan.changes).toEqual([]);
    expect(plan.findings).toMatchObject([{ reason: "ArchitectureUnknown", severity: "info" }]);
    expect(changesOf(makeNode())).toEqual([]);
  });

  it("or says what no taint can hold, is not tainted, and that is warned of", () => {
    const plan = planWith(nodeWith({}, "arm 64!"), [tainting]);
    expect(plan.changes).toEqual([]);
    expect(plan.findings).toMatchObject([{ reason: "MarkInvalid", severity: "warning" }]);
  });
});

it("says of its mark what on the node it is made from", () => {
  const node = nodeWith();
  const view = { node, owned: new Map() };
  const [mark] = tainting.contribute(view, NEW_YEAR).decision.marks;
  if (mark === undefined) throw new Error("no mark");
  expect(tainting.inputs(view, mark)).toEqual(["nodeInfo.architecture=arm64"]);
  expect(bound({ other: {} }).inputs(view, mark)).toEqual([]);
});
