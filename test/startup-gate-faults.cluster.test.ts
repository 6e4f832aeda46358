/**
 * Startup gates while things go wrong: servers and Berths that end, two of them at once, clocks that jump, gates that
 * are taken away. No node is let go early, none is held for good, and nobody fights.
 */
import type { RunningBerth } from "@berth/cli";
import { crds } from "@berth/cli";
import { apiVersionOf, customResourceDefinitions, events, type KubeObject, type Resource } from "@berth/kube";
import {
  architecturePolicies,
  labelRules,
  nodeFootprints,
  ORIGINAL_ARCHITECTURE_KEY,
  originalGate,
  startupGates,
} from "@berth/placement";
import { type Clock, systemClock } from "@berth/runtime";
import { eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { createLeapingClock } from "./clocks.ts";
import { each } from "./each.ts";
import { metric, taintsOf } from "./fixture.ts";
import {
  atOnce,
  completedAt,
  createGateStage,
  type GateStage,
  hasTaint,
  installCrds,
  ORIGINAL_TAINT,
  saysCondition,
  sharedGateCluster,
  stateOf,
} from "./gate-world.ts";
import { RECONNECTED } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

const numbered = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `n${at}`);

/** Nodes that are held, each with a pod that is not ready. */
async function hold(stage: GateStage, names: readonly string[]): Promise<void> {
  await each(names, (node) => stage.addHeld(node));
  await each(names, (node) => stage.pod(stage.init(node), { ready: false }));
  await each(names, (node) => stage.state(node, "held", "net"));
}

const getReady = (stage: GateStage, names: readonly string[]): Promise<void> =>
  each(names, (node) => stage.say({ name: `init-${node}` }, { ready: true }));

it.each(["SIGTERM", "SIGKILL"] as const)(
  "the API server that ends (%s) and comes back finds 200 nodes held, and all are let go once they are ready",
  async (signal) => {
    await using stage = await createGateStage(cluster, `restart-${signal.toLowerCase()}`);
    await stage.gate("net", atOnce);
    await stage.start();
    const names = numbered(200);
    await hold(stage, names);
    await cluster.stopComponent("kube-apiserver", signal);
    await cluster.startComponent("kube-apiserver");
    const mark = await cluster.audit.mark();
    await stage.settled(RECONNECTED);
    await each(names, async (node) => expect(hasTaint(await stage.readNode(node))).toBe(true));
    expect(await stage.nodeWrites(mark)).toEqual([]);
    await getReady(stage, names);
    await each(names, (node) => stage.free(node));
    expect(await stage.nodeWrites(mark)).toEqual(names.map(() => "patch 200"));
  },
);

describe("Berth", () => {
  it("that is started again goes on with a hold where it was", async () => {
    await using stage = await createGateStage(cluster, "resumed");
    const timeouts = { noPod: "1h", policy: "Release" };
    await stage.gate("net", { ...atOnce, timeouts });
    const first = await stage.start();
    await stage.addHeld("n");
    const { at } = stateOf(await stage.state("n", "held", "net"), "net") ?? {};
    await first[Symbol.asyncDispose]();
    const mark = await cluster.audit.mark();
    // Only now, so that the first has not let it go already.
    const body = { spec: { timeouts: { ...timeouts, noPod: "3s" } } };
    await cluster.client.patch(startupGates, { name: "net" }, { type: "merge", body });
    await stage.start();
    const after = await stage.free("n");
    expect(stateOf(after, "net")).toMatchObject({ why: "TimedOut" });
    expect(Date.now() - Date.parse(String(at))).toBeGreaterThanOrEqual(3000);
    expect(await stage.nodeWrites(mark, "n")).toEqual(["patch 200"]);
  });

  it.each(["without election", "with election"] as const)(
    "twice during an upgrade, %s, writes each node once, and has no fight",
    async (how) => {
      await using stage = await createGateStage(cluster, how.replace(" ", "-"));
      await stage.gate("net", atOnce);
      const lease = how === "with election" ? { lease: { namespace: "default", name: stage.name } } : {};
      const old = await stage.start({ ...lease, identity: "old", userAgent: "berth/old" });
      await stage.start({ ...lease, identity: "new", userAgent: "berth/new" });
      const mark = await cluster.audit.mark();
      const names = numbered(40);
      // Without the taint, so that both want to gate them.
      await each(names, (node) => stage.add(node));
      await each(names, async (node) => {
        const found = await stage.held(node);
        expect(taintsOf(found).filter((it) => it === ORIGINAL_TAINT)).toHaveLength(1);
      });
      await each(names, (node) => stage.pod(stage.init(node), { ready: true }));
      await each(names.slice(0, 20), (node) => stage.free(node));
      await old[Symbol.asyncDispose]();
      await each(names, (node) => stage.free(node));
      await stage.settled();
      let refused = 0;
      for (const node of names) {
        const writes = await stage.nodeWrites(mark, node);
        expect(writes.filter((it) => it === "patch 200")).toHaveLength(2);
        expect(writes.filter((it) => it !== "patch 200" && it !== "patch 409")).toEqual([]);
        refused += writes.length - 2;
      }
      // Of the other of the two, once for each of its writes; one whose watch is late may be refused once more.
      expect(refused).toBeLessThanOrEqual(2 * names.length);
      for (const node of names) {
        expect(await stage.events("Contested", node)).toEqual([]);
        expect(hasTaint(await stage.readNode(node))).toBe(false);
      }
    },
  );
});

describe("the clock", () => {
  it("that jumps by an hour, forwards and back, neither lets a node go nor times it out", async () => {
    await using stage = await createGateStage(cluster, "clock");
    let offsetMs = 0;
    const clock: Clock = { ...systemClock, now: () => Date.now() + offsetMs };
    const timeouts = { noPod: "10m", notReady: "20m", policy: "Release" };
    await stage.gate("net", { ...atOnce, stableFor: "2s", minimumHold: "1s", timeouts });
    await stage.start({ clock });
    await stage.addHeld("empty");
    await hold(stage, ["n"]);
    for (const jump of [3_600_000, -3_600_000]) {
      offsetMs = jump;
      await stage.editNode("n", { metadata: { annotations: { "example.com/jump": `${jump}` } } });
      await stage.editNode("empty", { metadata: { annotations: { "example.com/jump": `${jump}` } } });
      await stage.settled();
      for (const node of ["n", "empty"]) {
        expect(hasTaint(await stage.readNode(node))).toBe(true);
        expect(await stage.events("TimedOut", node)).toEqual([]);
      }
    }
    offsetMs = 0;
    const began = performance.now();
    await getReady(stage, ["n"]);
    await stage.editNode("n", { metadata: { annotations: { "example.com/jump": "0" } } });
    offsetMs = 3_600_000;
    await stage.editNode("n", { metadata: { annotations: { "example.com/jump": "1" } } });
    await stage.free("n");
    expect(performance.now() - began).toBeGreaterThanOrEqual(2000);
  });
});

describe("a gate that is taken away", () => {
  it("lets all its nodes go", async () => {
    await using stage = await createGateStage(cluster, "deleted");
    await stage.gate("net", atOnce);
    await stage.start();
    const names = numbered(20);
    await hold(stage, names);
    await cluster.client.delete(startupGates, { name: "net" });
    await each(names, async (node) => expect(completedAt(await stage.free(node))).toBeUndefined());
    for (const node of names) expect(stateOf(await stage.readNode(node), "net")).toBeUndefined();
  });

  it("while Berth was away lets its nodes go when Berth is back", async () => {
    await using stage = await createGateStage(cluster, "deleted-away");
    await stage.gate("net", { ...atOnce, taint: { key: "deleted.test/wait" } });
    const first = await stage.start();
    await stage.add("n");
    await stage.held("n", "deleted.test/wait=wait:NoSchedule");
    await first[Symbol.asyncDispose]();
    await cluster.client.delete(startupGates, { name: "net" });
    // The CRDs are as young as the test: otherwise a gate that is missing is not taken for deleted yet.
    await stage.start({ crdGraceMs: 0 });
    expect(hasTaint(await stage.free("n", "deleted.test/wait"), "deleted.test/wait")).toBe(false);
  });

  it("with a fault keeps its nodes held, as they are, until it is right again", async () => {
    await using stage = await createGateStage(cluster, "broken");
    const pool = { key: "pool", operator: "Exists" };
    await stage.gate("net", {
      ...atOnce,
      nodeSelector: { matchExpressions: [{ ...pool, operator: "DoesNotExist" }] },
    });
    const taint = { key: "broken.test/wait" };
    await stage.gate("other", { ...atOnce, taint, nodeSelector: { matchExpressions: [pool] } });
    await stage.start();
    await hold(stage, ["n"]);
    const edit = (matchLabels: object) => {
      const body = { spec: { signals: { pods: [{ selector: { matchLabels } }] } } };
      return cluster.client.patch(startupGates, { name: "net" }, { type: "merge", body });
    };
    await edit({ "not a label": "x" });
    await saysCondition(stage, "net", { type: "Ready", status: "False", reason: "GateInvalid" });
    await getReady(stage, ["n"]);
    // The other gate goes on, and what it does now comes after all that was done before.
    await stage.add("m", (it) => it.labelled({ pool: "a" }));
    await stage.held("m", "broken.test/wait=wait:NoSchedule");
    await stage.pod(stage.init("m"), { ready: true });
    await stage.free("m", "broken.test/wait");
    expect(taintsOf(await stage.readNode("n"))).toContain(ORIGINAL_TAINT);
    expect(stateOf(await stage.readNode("n"), "net")).toMatchObject({ state: "held" });
    await edit({ "startup.k8s.io/component": "init" });
    await stage.free("n");
  });
});

// Last, as they take the CRDs away.
describe("I-3 the CRDs", () => {
  const kinds = [labelRules, startupGates, architecturePolicies, nodeFootprints] as const;
  const AGENT = "example.com/agent";
  const LABEL = "example.com/labelled";
  const pastGraceMs = 11 * 60_000;

  const deleteCrds = async (): Promise<void> => {
    for (const crd of crds())
      await cluster.client.delete(customResourceDefinitions, { name: crd.metadata?.name ?? "" });
    for (const kind of kinds)
      await eventually(() => expect(cluster.client.list<KubeObject>(kind)).rejects.toThrow(/not found/));
  };

  /** One document of each kind, each of which marks every node. */
  const documents = async (stage: GateStage): Promise<void> => {
    const create = <T extends KubeObject>(resource: Resource<T>, spec: object): Promise<T> => {
      const { kind } = resource;
      const object = { apiVersion: apiVersionOf(resource), kind, metadata: { name: "net" }, spec };
      return cluster.client.create(resource, object as unknown as T);
    };
    await stage.gate("net", atOnce);
    await create(labelRules, { match: {}, labels: [{ key: LABEL }] });
    await create(architecturePolicies, { mode: "Taint" });
    await create(nodeFootprints, {
      workloads: [{ podSelector: { matchLabels: originalGate.podLabels } }],
      node: { label: { key: AGENT } },
      release: { delay: "0s" },
    });
  };

  const marksOf = async (stage: GateStage, node: string): Promise<readonly string[]> => {
    const found = await stage.readNode(node);
    const labels = [LABEL, AGENT].filter((key) => found.metadata?.labels?.[key] !== undefined);
    const keys = [originalGate.taint.key, ORIGINAL_ARCHITECTURE_KEY];
    return [...labels, ...keys.filter((key) => hasTaint(found, key))];
  };
  const all = [LABEL, AGENT, originalGate.taint.key, ORIGINAL_ARCHITECTURE_KEY];

  const marked = (stage: GateStage, node: string, marks: readonly string[]): Promise<void> =>
    eventually(async () => expect(await marksOf(stage, node)).toEqual(marks));

  const heldNode = async (stage: GateStage, node: string): Promise<void> => {
    await stage.addHeld(node);
    await stage.pod(stage.init(node), { ready: false });
  };

  const away = (berth: RunningBerth): Promise<readonly number[]> =>
    Promise.all(kinds.map(({ kind }) => metric(berth, "berth_kind_away", { kind })));

  it("that are deleted take nothing with them for 10 minutes, and then taints only", async () => {
    await using stage = await createGateStage(cluster, "crds");
    const clock = createLeapingClock();
    await documents(stage);
    const berth = await stage.start({ clock });
    await heldNode(stage, "a");
    await marked(stage, "a", all);
    const mark = await cluster.audit.mark();
    await deleteCrds();
    await eventually(async () => expect(await away(berth)).toEqual([1, 1, 1, 1]));
    await eventually(async () => {
      const { items } = await cluster.client.list(events, { fieldSelector: "reason=KindAway" });
      expect(new Set(items.map(({ note = "" }) => note.split(" ")[2]))).toEqual(
        new Set(kinds.map(({ plural, group }) => `${plural}.${group}`)),
      );
    });
    expect(berth.problems()).toEqual([]);
    await clock.leap(9 * 60_000);
    // All goes on: a node that comes now is marked as any other.
    await heldNode(stage, "b");
    await marked(stage, "b", all);
    // When they come back with their objects, nothing is written.
    await installCrds(cluster);
    await documents(stage);
    await eventually(async () => expect(await away(berth)).toEqual([0, 0, 0, 0]));
    await stage.settled();
    expect(await marksOf(stage, "a")).toEqual(all);
    expect(await stage.nodeWrites(mark, "a")).toEqual([]);
    await deleteCrds();
    await eventually(async () => expect(await away(berth)).toEqual([1, 1, 1, 1]));
    await clock.leap(pastGraceMs);
    await marked(stage, "a", [LABEL, AGENT]);
    await stage.deletePod("init-b", "kube-system");
    await marked(stage, "b", [LABEL, AGENT]);
  });

  it("that are away when Berth starts take nothing with them for 10 minutes, and then taints only", async () => {
    await using stage = await createGateStage(cluster, "start");
    await installCrds(cluster);
    await documents(stage);
    const first = await stage.start();
    await heldNode(stage, "a");
    await marked(stage, "a", all);
    await first[Symbol.asyncDispose]();
    await deleteCrds();
    const clock = createLeapingClock();
    const berth = await stage.start({ clock, config: [await stage.file("none.yaml", "")] });
    await eventually(async () => expect(await away(berth)).toEqual([1, 1, 1, 1]));
    await clock.leap(9 * 60_000);
    expect(await marksOf(stage, "a")).toEqual(all);
    await clock.leap(2 * 60_000);
    await marked(stage, "a", [LABEL, AGENT]);
  });
});
