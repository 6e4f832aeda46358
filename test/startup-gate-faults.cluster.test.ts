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
  createGateFixture,
  type GateFixture,
  hasTaint,
  installCrds,
  ORIGINAL_TAINT,
  saysCondition,
  sharedGateCluster,
  stateOf,
} from "./gate-fixture.ts";
import { RECONNECTED } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

const numbered = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `n${at}`);

/** Nodes that are held, each with a pod that is not ready. */
async function hold(fixture: GateFixture, names: readonly string[]): Promise<void> {
  await each(names, (node) => fixture.addHeld(node));
  await each(names, (node) => fixture.pod(fixture.init(node), { ready: false }));
  await each(names, (node) => fixture.state(node, "held", "net"));
}

const getReady = (fixture: GateFixture, names: readonly string[]): Promise<void> =>
  each(names, (node) => fixture.say({ name: `init-${node}` }, { ready: true }));

it.each(["SIGTERM", "SIGKILL"] as const)(
  "the API server that ends (%s) and comes back finds 200 nodes held, and all are let go once they are ready",
  async (signal) => {
    await using fixture = await createGateFixture(cluster, `restart-${signal.toLowerCase()}`);
    await fixture.gate("net", atOnce);
    await fixture.start();
    const names = numbered(200);
    await hold(fixture, names);
    await cluster.stopComponent("kube-apiserver", signal);
    await cluster.startComponent("kube-apiserver");
    const mark = await cluster.audit.mark();
    await fixture.settled(RECONNECTED);
    await each(names, async (node) => expect(hasTaint(await fixture.readNode(node))).toBe(true));
    expect(await fixture.nodeWrites(mark)).toEqual([]);
    await getReady(fixture, names);
    await each(names, (node) => fixture.free(node));
    expect(await fixture.nodeWrites(mark)).toEqual(names.map(() => "patch 200"));
  },
);

describe("Berth", () => {
  it("that is started again goes on with a hold where it was", async () => {
    await using fixture = await createGateFixture(cluster, "resumed");
    const timeouts = { noPod: "1h", policy: "Release" };
    await fixture.gate("net", { ...atOnce, timeouts });
    const first = await fixture.start();
    await fixture.addHeld("n");
    const { at } = stateOf(await fixture.state("n", "held", "net"), "net") ?? {};
    await first[Symbol.asyncDispose]();
    const mark = await cluster.audit.mark();
    // Only now, so that the first has not let it go already.
    const body = { spec: { timeouts: { ...timeouts, noPod: "3s" } } };
    await cluster.client.patch(startupGates, { name: "net" }, { type: "merge", body });
    await fixture.start();
    const after = await fixture.free("n");
    expect(stateOf(after, "net")).toMatchObject({ why: "TimedOut" });
    expect(Date.now() - Date.parse(String(at))).toBeGreaterThanOrEqual(3000);
    expect(await fixture.nodeWrites(mark, "n")).toEqual(["patch 200"]);
  });

  it.each(["without election", "with election"] as const)(
    "twice during an upgrade, %s, writes each node once, and has no fight",
    async (how) => {
      await using fixture = await createGateFixture(cluster, how.replace(" ", "-"));
      await fixture.gate("net", atOnce);
      const lease = how === "with election" ? { lease: { namespace: "default", name: fixture.name } } : {};
      const old = await fixture.start({ ...lease, identity: "old", userAgent: "berth/old" });
      await fixture.start({ ...lease, identity: "new", userAgent: "berth/new" });
      const mark = await cluster.audit.mark();
      const names = numbered(40);
      // Without the taint, so that both want to gate them.
      await each(names, (node) => fixture.add(node));
      await each(names, async (node) => {
        const found = await fixture.held(node);
        expect(taintsOf(found).filter((it) => it === ORIGINAL_TAINT)).toHaveLength(1);
      });
      await each(names, (node) => fixture.pod(fixture.init(node), { ready: true }));
      await each(names.slice(0, 20), (node) => fixture.free(node));
      await old[Symbol.asyncDispose]();
      await each(names, (node) => fixture.free(node));
      await fixture.settled();
      for (const node of names) {
        const writes = await fixture.nodeWrites(mark, node);
        expect(writes.filter((it) => it === "patch 200")).toHaveLength(2);
        const refused = writes.filter((it) => it !== "patch 200");
        // For each write the other of the two is refused, and once more where its watch is late.
        expect(refused.length).toBeLessThanOrEqual(4);
        expect(refused.filter((it) => it !== "patch 409")).toEqual([]);
      }
      for (const node of names) {
        expect(await fixture.events("Contested", node)).toEqual([]);
        expect(hasTaint(await fixture.readNode(node))).toBe(false);
      }
    },
  );
});

describe("the clock", () => {
  it("that jumps by an hour, forwards and back, neither lets a node go nor times it out", async () => {
    await using fixture = await createGateFixture(cluster, "clock");
    let offsetMs = 0;
    const clock: Clock = { ...systemClock, now: () => Date.now() + offsetMs };
    const timeouts = { noPod: "10m", notReady: "20m", policy: "Release" };
    await fixture.gate("net", { ...atOnce, stableFor: "2s", minimumHold: "1s", timeouts });
    await fixture.start({ clock });
    await fixture.addHeld("empty");
    await hold(fixture, ["n"]);
    for (const jump of [3_600_000, -3_600_000]) {
      offsetMs = jump;
      await fixture.editNode("n", { metadata: { annotations: { "example.com/jump": `${jump}` } } });
      await fixture.editNode("empty", { metadata: { annotations: { "example.com/jump": `${jump}` } } });
      await fixture.settled();
      for (const node of ["n", "empty"]) {
        expect(hasTaint(await fixture.readNode(node))).toBe(true);
        expect(await fixture.events("TimedOut", node)).toEqual([]);
      }
    }
    offsetMs = 0;
    const began = performance.now();
    await getReady(fixture, ["n"]);
    await fixture.editNode("n", { metadata: { annotations: { "example.com/jump": "0" } } });
    offsetMs = 3_600_000;
    await fixture.editNode("n", { metadata: { annotations: { "example.com/jump": "1" } } });
    await fixture.free("n");
    expect(performance.now() - began).toBeGreaterThanOrEqual(2000);
  });
});

describe("a gate that is taken away", () => {
  it("lets all its nodes go", async () => {
    await using fixture = await createGateFixture(cluster, "deleted");
    await fixture.gate("net", atOnce);
    await fixture.start();
    const names = numbered(20);
    await hold(fixture, names);
    await cluster.client.delete(startupGates, { name: "net" });
    await each(names, async (node) => expect(completedAt(await fixture.free(node))).toBeUndefined());
    for (const node of names) expect(stateOf(await fixture.readNode(node), "net")).toBeUndefined();
  });

  it("while Berth was away lets its nodes go when Berth is back", async () => {
    await using fixture = await createGateFixture(cluster, "deleted-away");
    await fixture.gate("net", { ...atOnce, taint: { key: "deleted.test/wait" } });
    const first = await fixture.start();
    await fixture.add("n");
    await fixture.held("n", "deleted.test/wait=wait:NoSchedule");
    await first[Symbol.asyncDispose]();
    await cluster.client.delete(startupGates, { name: "net" });
    // The CRDs are as young as the test: otherwise a gate that is missing is not taken for deleted yet.
    await fixture.start({ crdGraceMs: 0 });
    expect(hasTaint(await fixture.free("n", "deleted.test/wait"), "deleted.test/wait")).toBe(false);
  });

  it("with a fault keeps its nodes held, as they are, until it is right again", async () => {
    await using fixture = await createGateFixture(cluster, "broken");
    const pool = { key: "pool", operator: "Exists" };
    await fixture.gate("net", {
      ...atOnce,
      nodeSelector: { matchExpressions: [{ ...pool, operator: "DoesNotExist" }] },
    });
    const taint = { key: "broken.test/wait" };
    await fixture.gate("other", { ...atOnce, taint, nodeSelector: { matchExpressions: [pool] } });
    await fixture.start();
    await hold(fixture, ["n"]);
    const edit = (matchLabels: object) => {
      const body = { spec: { signals: { pods: [{ selector: { matchLabels } }] } } };
      return cluster.client.patch(startupGates, { name: "net" }, { type: "merge", body });
    };
    await edit({ "not a label": "x" });
    await saysCondition(fixture, "net", { type: "Ready", status: "False", reason: "GateInvalid" });
    await getReady(fixture, ["n"]);
    // The other gate goes on, and what it does now comes after all that was done before.
    await fixture.add("m", (it) => it.labelled({ pool: "a" }));
    await fixture.held("m", "broken.test/wait=wait:NoSchedule");
    await fixture.pod(fixture.init("m"), { ready: true });
    await fixture.free("m", "broken.test/wait");
    expect(taintsOf(await fixture.readNode("n"))).toContain(ORIGINAL_TAINT);
    expect(stateOf(await fixture.readNode("n"), "net")).toMatchObject({ state: "held" });
    await edit({ "startup.k8s.io/component": "init" });
    await fixture.free("n");
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
  const documents = async (fixture: GateFixture): Promise<void> => {
    const create = <T extends KubeObject>(resource: Resource<T>, spec: object): Promise<T> => {
      const { kind } = resource;
      const object = { apiVersion: apiVersionOf(resource), kind, metadata: { name: "net" }, spec };
      return cluster.client.create(resource, object as unknown as T);
    };
    await fixture.gate("net", atOnce);
    await create(labelRules, { match: {}, labels: [{ key: LABEL }] });
    await create(architecturePolicies, { mode: "Taint" });
    await create(nodeFootprints, {
      workloads: [{ podSelector: { matchLabels: originalGate.podLabels } }],
      node: { label: { key: AGENT } },
      release: { delay: "0s" },
    });
  };

  const marksOf = async (fixture: GateFixture, node: string): Promise<readonly string[]> => {
    const found = await fixture.readNode(node);
    const labels = [LABEL, AGENT].filter((key) => found.metadata?.labels?.[key] !== undefined);
    const keys = [originalGate.taint.key, ORIGINAL_ARCHITECTURE_KEY];
    return [...labels, ...keys.filter((key) => hasTaint(found, key))];
  };
  const all = [LABEL, AGENT, originalGate.taint.key, ORIGINAL_ARCHITECTURE_KEY];

  const marked = (fixture: GateFixture, node: string, marks: readonly string[]): Promise<void> =>
    eventually(async () => expect(await marksOf(fixture, node)).toEqual(marks));

  const heldNode = async (fixture: GateFixture, node: string): Promise<void> => {
    await fixture.addHeld(node);
    await fixture.pod(fixture.init(node), { ready: false });
  };

  const away = (berth: RunningBerth): Promise<readonly number[]> =>
    Promise.all(kinds.map(({ kind }) => metric(berth, "berth_kind_away", { kind })));

  it("that are deleted take nothing with them for 10 minutes, and then taints only", async () => {
    await using fixture = await createGateFixture(cluster, "crds");
    const clock = createLeapingClock();
    await documents(fixture);
    const berth = await fixture.start({ clock });
    await heldNode(fixture, "a");
    await marked(fixture, "a", all);
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
    await heldNode(fixture, "b");
    await marked(fixture, "b", all);
    // When they come back with their objects, nothing is written.
    await installCrds(cluster);
    await documents(fixture);
    await eventually(async () => expect(await away(berth)).toEqual([0, 0, 0, 0]));
    await fixture.settled();
    expect(await marksOf(fixture, "a")).toEqual(all);
    expect(await fixture.nodeWrites(mark, "a")).toEqual([]);
    await deleteCrds();
    await eventually(async () => expect(await away(berth)).toEqual([1, 1, 1, 1]));
    await clock.leap(pastGraceMs);
    await marked(fixture, "a", [LABEL, AGENT]);
    await fixture.deletePod("init-b", "kube-system");
    await marked(fixture, "b", [LABEL, AGENT]);
  });

  it("that are away when Berth starts take nothing with them for 10 minutes, and then taints only", async () => {
    await using fixture = await createGateFixture(cluster, "start");
    await installCrds(cluster);
    await documents(fixture);
    const first = await fixture.start();
    await heldNode(fixture, "a");
    await marked(fixture, "a", all);
    await first[Symbol.asyncDispose]();
    await deleteCrds();
    const clock = createLeapingClock();
    const berth = await fixture.start({ clock, config: [await fixture.file("none.yaml", "")] });
    await eventually(async () => expect(await away(berth)).toEqual([1, 1, 1, 1]));
    await clock.leap(9 * 60_000);
    expect(await marksOf(fixture, "a")).toEqual(all);
    await clock.leap(2 * 60_000);
    await marked(fixture, "a", [LABEL, AGENT]);
  });
});
