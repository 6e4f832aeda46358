import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { type CleanInput, planClean } from "../node/clean.ts";
import type { NodePlan } from "../node/plan.ts";
import { NEW_YEAR } from "../node/testing/labels.ts";
import { editNode, makeNode, patchNode } from "../node/testing/world.ts";
import { unrecordedGates } from "./clean.ts";
import type { Gates } from "./gate.ts";
import { planRelease, type ReleasePlan } from "./release.ts";
import { parseState } from "./state.ts";
import { bind, TAINT as DEFAULT, gatesOf, settle, viewOf } from "./testing/look-once.ts";

const spec = (extra: object = {}): object => ({
  signals: { conditions: [{ type: "NetworkReady" }] },
  ...extra,
});

function release(node: Node, gates: Gates, only?: string): ReleasePlan {
  const now = NEW_YEAR + 60_000;
  const view = viewOf(node);
  const looks = bind(gates).look(view, now);
  const named = only === undefined ? {} : { only };
  return planRelease({ view, gates, looks, note: "tested", installation: "berth", now, ...named });
}

const OTHER = { key: "example.com/other", value: "", effect: "NoSchedule" } as const;

const two = gatesOf({
  network: spec({ mode: "Continuous" }),
  storage: spec({ taint: { key: "readiness.k8s.io/storage" } }),
});

function heldByTwo(): Node {
  const node = settle(makeNode({ taints: [OTHER, DEFAULT] }), bind(two));
  return settle(
    editNode(node, {
      spec: {
        taints: [...(node.spec?.taints ?? []), { key: "readiness.k8s.io/storage", effect: "NoSchedule" }],
      },
    }),
    bind(two),
  );
}

describe("letting a node go by hand", () => {
  it("takes off the taints of all its gates by one guarded patch, and leaves those of others", () => {
    const held = heldByTwo();
    const { released, plan, problem } = release(held, two);
    expect([released, problem]).toEqual([["cluster/network", "cluster/storage"], undefined]);
    expect(plan.patch?.metadata).toMatchObject({
      uid: "uid-n1",
      resourceVersion: held.metadata?.resourceVersion,
    });
    const node = patchNode(held, plan.patch ?? {});
    expect(node.spec?.taints).toEqual([OTHER]);
    expect(node.metadata?.annotations?.["startup.k8s.io/completedAt"]).toBe(String(NEW_YEAR / 1000 + 60));
    expect(parseState(node.metadata?.annotations?.["gate.berth.dev/network"])).toMatchObject({
      state: "released",
      why: "ReleasedByHand",
      note: "tested",
      at: NEW_YEAR + 60_000,
    });
  });

  it("is what a running Berth keeps to, also with signals missing", () => {
    const held = heldByTwo();
    const node = patchNode(held, release(held, two).plan.patch ?? {});
    expect(settle(node, bind(two), NEW_YEAR + 120_000)).toBe(node);
    const put = editNode(node, { spec: { taints: [DEFAULT] } });
    expect(settle(put, bind(two), NEW_YEAR + 120_000).spec?.taints).toBeUndefined();
  });

  it("leaves what another gate does where one is named", () => {
    const held = heldByTwo();
    const { released, plan } = release(held, two, "network");
    expect(released).toEqual(["cluster/network"]);
    const node = patchNode(held, plan.patch ?? {});
    expect(node.spec?.taints?.map(({ key }) => key)).toEqual([OTHER.key, "readiness.k8s.io/storage"]);
    expect(node.metadata?.annotations?.["gate.berth.dev/storage"]).toBe(
      held.metadata?.annotations?.["gate.berth.dev/storage"],
    );
    expect(settle(node, bind(two))).toBe(node);
  });

  it("takes off what admission has put there and nobody recorded, and leaves other gates without a record alone", () => {
    const storage = { key: "readiness.k8s.io/storage", value: "wait", effect: "NoSchedule" } as const;
    const { plan } = release(makeNode({ taints: [DEFAULT, storage] }), two, "network");
    expect(plan.patch?.spec?.taints).toEqual([storage]);
    expect(Object.keys(plan.patch?.metadata.annotations ?? {})).not.toContain("gate.berth.dev/storage");
  });

  it("undoes the cordon of the gate with it", () => {
    const gates = gatesOf({ network: spec({ timeouts: { notReady: "1s", policy: "Cordon" } }) });
    let nowMs = NEW_YEAR;
    const capability = bind(gates, () => nowMs);
    let node = settle(makeNode({ taints: [DEFAULT] }), capability, nowMs);
    nowMs += 5000;
    node = settle(settle(node, capability, nowMs), capability, nowMs);
    expect(node.spec?.unschedulable).toBe(true);
    const { plan } = release(node, gates);
    expect(plan.patch?.spec).toEqual({ taints: null, unschedulable: null });
  });

  it("finds a taint that is recorded under the gate's former source", () => {
    const held = heldByTwo();
    const record = held.metadata?.annotations?.["berth.dev/marks"]?.replaceAll(
      "cluster/network",
      "config/network",
    );
    const moved = editNode(held, { annotations: { "berth.dev/marks": record ?? "" } });
    const { plan, problem } = release(moved, two, "network");
    expect(problem).toBeUndefined();
    expect(plan.patch?.spec?.taints?.map(({ key }) => key)).not.toContain(DEFAULT.key);
  });

  it("has nothing to do on a node that is not held", () => {
    expect(release(makeNode({ taints: [OTHER] }), two)).toMatchObject({
      released: [],
      plan: { changes: [] },
    });
    const once = patchNode(heldByTwo(), release(heldByTwo(), two).plan.patch ?? {});
    expect(release(once, two).released).toEqual([]);
  });

  it("says why a taint would stay: another installation has it, or the record cannot be read", () => {
    const held = heldByTwo();
    const record = held.metadata?.annotations?.["berth.dev/marks"] ?? "";
    const foreign = editNode(held, {
      annotations: { "berth.dev/marks": record.replace('"by":"berth"', '"by":"other"') },
    });
    expect(release(foreign, two).problem).toContain("OtherInstallation");
    const broken = editNode(held, { annotations: { "berth.dev/marks": "{" } });
    expect(release(broken, two).problem).toContain("berth.dev/marks");
  });
});

describe("cleaning nodes that gates hold", () => {
  type Input = Omit<CleanInput, "installation" | "unrecorded"> & { readonly gates?: Pick<Gates, "gates"> };
  const cleaned = ({ gates = { gates: [] }, ...input }: Input): NodePlan =>
    planClean({ ...input, installation: "berth", unrecorded: [unrecordedGates(gates)] });

  it("leaves nothing of them, whether the gates are known or not", () => {
    for (const gates of [two, undefined]) {
      const held = heldByTwo();
      const known = gates ? { gates, declared: gates.policy.places ?? new Set() } : { recorded: true };
      const { patch } = cleaned({ node: held, ...known });
      const node = patchNode(held, patch ?? {});
      expect([node.spec?.taints, node.metadata?.annotations]).toEqual([[OTHER], {}]);
    }
  });

  it("takes off taints that admission has put there, of gates that select the node only", () => {
    const gates = gatesOf({
      network: spec({ nodeSelector: { matchLabels: { pool: "a" } }, taint: { key: "example.com/network" } }),
    });
    const taint = { key: "example.com/network", effect: "NoSchedule" } as const;
    const taints = [OTHER, taint, DEFAULT];
    const selected = cleaned({ node: makeNode({ labels: { pool: "a" }, taints }), gates });
    expect(selected.patch?.spec?.taints).toEqual([OTHER]);
    const elsewhere = cleaned({ node: makeNode({ labels: { pool: "b" }, taints }), gates });
    expect(elsewhere.patch).toBeUndefined();
  });

  it("believes a record about protected keys of gates only", () => {
    const since = "2026-01-01T00:00:00Z";
    const r = "cluster/network";
    const forged = {
      "taint/node-role.kubernetes.io/control-plane:NoSchedule": { c: "gates", r, since },
      "taint/example.kubernetes.io/x:NoSchedule": { c: "gates", r, since },
      "taint/readiness.k8s.io/x:NoSchedule": { c: "labels", r, since },
      "label/startup.k8s.io/x": { c: "gates", r, since },
    };
    const node = makeNode({
      labels: { "startup.k8s.io/x": "1" },
      taints: [
        { key: "node-role.kubernetes.io/control-plane", effect: "NoSchedule" },
        { key: "example.kubernetes.io/x", effect: "NoSchedule" },
        { key: "readiness.k8s.io/x", effect: "NoSchedule" },
      ],
      annotations: { "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks: forged }) },
    });
    const { changes, stays } = cleaned({ node, recorded: true });
    expect([changes, stays.map(({ reason }) => reason)]).toEqual([
      [],
      Array.from({ length: 4 }, () => "ProtectedKey"),
    ]);
    const gates = gatesOf({
      network: spec({ taint: { key: "example.kubernetes.io/x" } }),
    });
    const declared = gates.policy.places ?? new Set();
    const known = cleaned({ node, gates, declared });
    expect(known.patch?.spec?.taints?.map(({ key }) => key)).toEqual([
      "node-role.kubernetes.io/control-plane",
      "readiness.k8s.io/x",
    ]);
  });

  it.each(["readiness.k8s.io/x", "startup-taint.cluster-autoscaler.kubernetes.io/x"])(
    "believes a record about %s, whose domain is for startup taints",
    (key) => {
      const marks = {
        [`taint/${key}:NoSchedule`]: { c: "gates", r: "cluster/network", since: "2026-01-01T00:00:00Z" },
      };
      const node = makeNode({
        taints: [{ key, effect: "NoSchedule" }, OTHER],
        annotations: { "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks }) },
      });
      const { patch } = cleaned({ node, recorded: true });
      expect(patch?.spec?.taints).toEqual([OTHER]);
    },
  );
});
