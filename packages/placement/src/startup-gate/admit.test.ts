import { applyPatch } from "@berth/host";
import type { Node, Taint, Toleration } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admitDaemonSetRequest, admitNode, admitNodeRequest } from "./admit.ts";
import { isGatedAtCreation } from "./selection.ts";
import { type GateInit, gateList } from "./testing/gate-list.ts";

const NODE = { kind: "Node" };
const contract = gateList({ contract: {} });
const taint = { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" };
const inTree = { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" };

const create = (object: unknown): unknown =>
  admitNodeRequest(contract, { kind: NODE, operation: "CREATE", object });

describe("a Node is created, as the contract has it", () => {
  it("N-P1 without taints: gets the list", () => {
    const patch =
      '[{"op":"add","path":"/spec/taints","value":[{"key":"startup.k8s.io/initializing","value":"wait","effect":"NoSchedule"}]}]';
    expect(JSON.stringify(create({ metadata: { name: "n" }, spec: {} }))).toBe(patch);
    expect(JSON.stringify(create({ metadata: {}, spec: { taints: [] } }))).toBe(patch);
    expect(JSON.stringify(create({ spec: { taints: null } }))).toBe(patch);
    expect(JSON.stringify(create({}))).toBe(patch);
  });

  it("N-P2 with taints: gets one more at the end", () => {
    const patch =
      '[{"op":"add","path":"/spec/taints/-","value":{"key":"startup.k8s.io/initializing","value":"wait","effect":"NoSchedule"}}]';
    expect(JSON.stringify(create(aNode("n").tainted(inTree).build()))).toBe(patch);
    const elsewhere = { ...taint, effect: "NoExecute" };
    expect(JSON.stringify(create(aNode("n").tainted(elsewhere).build()))).toBe(patch);
  });

  it("N-P3 tainted already, not created, no Node, or not selected: stays as it is", () => {
    expect(create(aNode("n").tainted(inTree, taint).build())).toEqual([]);
    const object = aNode("n").build();
    for (const operation of ["UPDATE", "DELETE", "CONNECT", ""]) {
      expect(admitNodeRequest(contract, { kind: NODE, operation, object })).toEqual([]);
    }
    expect(admitNodeRequest(contract, { kind: { kind: "Pod" }, operation: "CREATE", object })).toEqual([]);
    const notAzure = gateList({
      contract: { admissionExcept: { matchLabels: { "kubernetes.azure.com/mode": "system" } } },
    });
    const azure = (mode: string): Node => aNode("n").labelled({ "kubernetes.azure.com/mode": mode }).build();
    expect(admitNode(notAzure, azure("system"))).toEqual([]);
    expect(admitNode(notAzure, azure("user"))).toHaveLength(1);
    expect(admitNode(notAzure, object)).toHaveLength(1);
  });

  it.each([
    undefined,
    null,
    "node",
    [],
    { metadata: { labels: [] } },
    { metadata: { labels: { a: 1 } } },
    { spec: { taints: {} } },
    { spec: { taints: [null] } },
    { spec: { taints: [{ key: "a" }] } },
    { spec: { taints: [{ key: "a", effect: "NoSchedule", value: 1 }] } },
  ])("N-P4 that cannot be read, %j: stays as it is", (object) => {
    expect(create(object)).toEqual([]);
  });
});

describe("a Node is created, beyond the contract", () => {
  it("N-B6 a taint with another value gets ours, in its place", () => {
    const mine = { ...taint, value: "mine" };
    const none = { key: taint.key, effect: taint.effect };
    const patch = [{ op: "replace", path: "/spec/taints/1", value: taint }];
    expect(create(aNode("n").tainted(inTree, mine).build())).toEqual(patch);
    expect(create(aNode("n").tainted(inTree, none).build())).toEqual(patch);
  });

  it("N-B8 the control plane is skipped by default, by label and by taint", () => {
    const include = gateList({ contract: { controlPlane: "Include" } });
    for (const key of ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"]) {
      for (const node of [
        aNode("n").labelled({ [key]: "" }),
        aNode("n").tainted({ key, effect: "NoSchedule" }),
      ]) {
        expect(create(node.build())).toEqual([]);
        expect(admitNode(include, node.build())).toHaveLength(1);
      }
    }
  });

  it("N-B8 several gates, in one patch", () => {
    const gates = gateList({ a: {}, b: { taint: { key: "b" } }, c: { taint: { key: "c" } } });
    const b = { ...taint, key: "b" };
    const c = { ...taint, key: "c" };
    expect(admitNode(gates, {})).toEqual([{ op: "add", path: "/spec/taints", value: [taint, b, c] }]);
    const node = aNode("n").tainted("c=x:NoSchedule", "b=wait:NoSchedule").build();
    expect(admitNode(gates, node)).toEqual([
      { op: "replace", path: "/spec/taints/0", value: c },
      { op: "add", path: "/spec/taints/-", value: taint },
    ]);
  });

  it("never fails, whatever the object", () => {
    const gates = gateList({
      a: {},
      b: { taint: { key: "b" }, nodeSelector: { matchLabels: { toString: "" } } },
    });
    const part = fc.anything({ withNullPrototype: true });
    const object = fc.oneof(
      part,
      fc.json().map((text): unknown => JSON.parse(text)),
      fc.record({ metadata: fc.record({ labels: part }), spec: fc.record({ taints: part }) }),
      fc.record({
        spec: fc.record({ taints: fc.array(fc.oneof(part, fc.record({ key: part, effect: part }))) }),
      }),
    );
    fc.assert(
      fc.property(object, (it) => {
        expect(Array.isArray(admitNode(gates, it))).toBe(true);
      }),
    );
  });

  it("leaves every selected node with each taint once, and touches nothing else", () => {
    const init: fc.Arbitrary<GateInit> = fc.record({
      controlPlane: fc.constantFrom("Skip" as const, "Include" as const),
      nodeSelector: fc.record({
        matchLabels: fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom("1", "2"), { maxKeys: 1 }),
      }),
      admissionExcept: fc.constantFrom(undefined, { matchLabels: { a: "1" } }, {}),
      taint: fc.record({ key: fc.constantFrom("x", "y", "z"), value: fc.constantFrom("", "1") }),
    });
    const gates = fc
      .uniqueArray(init, { maxLength: 3, selector: (it) => it.taint?.key })
      .map((list) => gateList(Object.fromEntries(list.map((it, at) => [`g${at}`, it]))));
    const standing: fc.Arbitrary<Taint> = fc.record({
      key: fc.constantFrom("x", "y", "z", "other", "node-role.kubernetes.io/master"),
      value: fc.constantFrom("", "1", "2"),
      effect: fc.constantFrom("NoSchedule", "NoExecute"),
    });
    const place = ({ key, effect }: Taint): string => `${key}:${effect}`;
    const labels = fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom("1", "2"));
    fc.assert(
      fc.property(
        gates,
        labels,
        fc.uniqueArray(standing, { maxLength: 4, selector: place }),
        (list, has, taints) => {
          const node: Node = { metadata: { name: "n", labels: has }, spec: { taints } };
          const after = applyPatch(node, admitNode(list, node)) as Node;
          const stands = after.spec?.taints ?? [];
          expect(new Set(stands.map(place)).size).toBe(stands.length);
          expect(stands.slice(0, taints.length).map(place)).toEqual(taints.map(place));
          const wanted = list.gates
            .filter((gate) => isGatedAtCreation(gate, node))
            .map(({ spec }) => spec.taint);
          for (const it of wanted) expect(stands).toContainEqual(it);
          const isOurs = (it: Taint): boolean => wanted.some((ours) => place(ours) === place(it));
          expect(stands.filter((it) => !isOurs(it))).toEqual(taints.filter((it) => !isOurs(it)));
          expect({ ...after, spec: { taints } }).toEqual(node);
          expect(admitNode(list, after)).toEqual([]);
        },
      ),
    );
  });
});

describe("a DaemonSet of an opted-in namespace", () => {
  const ours: Toleration = { key: taint.key, operator: "Exists", effect: taint.effect };
  const path = "/spec/template/spec/tolerations";
  const record = {
    op: "add",
    path: "/metadata/annotations",
    value: { "berth.dev/gates-tolerations": `${taint.key}:${taint.effect}` },
  };
  const kind = { kind: "DaemonSet" };
  const daemonSet = (spec: object, more: object = {}): object => ({ spec: { template: { spec, ...more } } });

  it("is created: its pods tolerate the gates", () => {
    const created = (object: unknown): unknown =>
      admitDaemonSetRequest(contract, { kind, operation: "CREATE", object });
    expect(created(daemonSet({}))).toEqual([{ op: "add", path, value: [ours] }, record]);
    expect(created(daemonSet({ tolerations: [{ key: "x" }] }))).toEqual([
      { op: "add", path: `${path}/-`, value: ours },
      record,
    ]);
    expect(created(daemonSet({ tolerations: [{ operator: "Exists" }] }))).toEqual([]);
    for (const hostile of [
      undefined,
      {},
      { spec: null },
      daemonSet({ tolerations: [1] }),
      { spec: { template: {} } },
    ]) {
      expect(created(hostile)).toEqual([]);
    }
  });

  it("is updated: only when it rolls out anyway, and then as before", () => {
    const updated = (oldObject: unknown, object: unknown): unknown =>
      admitDaemonSetRequest(contract, { kind, operation: "UPDATE", object, oldObject });
    const [plain, changed] = [daemonSet({}), daemonSet({}, { metadata: { labels: { a: "1" } } })];
    expect(updated(plain, { ...plain, metadata: { labels: { a: "1" } } })).toEqual([]);
    expect(updated(plain, changed)).toEqual([{ op: "add", path, value: [ours] }, record]);
    expect(updated(daemonSet({ tolerations: [ours] }), plain)).toEqual([
      { op: "add", path, value: [ours] },
      record,
    ]);
  });

  it("is something else, or goes: nothing is done", () => {
    const object = daemonSet({});
    expect(admitDaemonSetRequest(contract, { kind: NODE, operation: "CREATE", object })).toEqual([]);
    expect(admitDaemonSetRequest(contract, { kind, operation: "DELETE", oldObject: object })).toEqual([]);
  });
});
