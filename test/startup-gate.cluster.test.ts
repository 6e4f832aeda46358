/**
 * Startup gates on the whole product: objects of a real API server, a Berth in this process, and what users see of it.
 * The drop-in for nodetaintshandler, faults and admission have files of their own beside this one.
 */
import { pods } from "@berth/kube";
import { originalGate, startupGates } from "@berth/placement";
import { createJsonLogger } from "@berth/runtime";
import { aPod, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { each } from "./each.ts";
import { BERTH, createNamespace, metric } from "./fixture.ts";
import {
  atOnce,
  booted,
  boots,
  completedAt,
  createGateFixture,
  type GateFixture,
  hasTaint,
  ORIGINAL_TAINT,
  says,
  sharedGateCluster,
  stateOf,
} from "./gate-fixture.ts";
import { quickest } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

/** A fixture with the gate `net`, and a Berth that knows it. */
async function gated(
  name: string,
  spec: object = {},
  options: Parameters<GateFixture["start"]>[0] = {},
): Promise<GateFixture & { readonly berth: Awaited<ReturnType<GateFixture["start"]>> }> {
  const fixture = await createGateFixture(cluster, name);
  await fixture.gate("net", { ...atOnce, ...spec });
  return Object.assign(fixture, { berth: await fixture.start(options) });
}

/** What a start looks at once, in all namespaces. */
const UNSCHEDULED = "spec.nodeName=,status.phase=Pending";

describe("a node that missed admission", () => {
  it("N-B1 is gated within two seconds when it is young and idle, at any time", async () => {
    await using fixture = await gated("b1");
    for (const moment of ["first", "second", "third"]) {
      const tookMs = await quickest(2000, async (attempt) => {
        const node = `${moment}-${attempt}`;
        await fixture.add(node);
        const began = performance.now();
        await fixture.held(node);
        return performance.now() - began;
      });
      expect(tookMs).toBeLessThan(2000);
    }
    await fixture.add("system");
    await fixture.pod(aPod("agent").in("kube-system").on(fixture.nodeName("system")));
    await fixture.held("system");
  });

  it("N-B1 is left alone when pods run there, and an Event says so", async () => {
    await using fixture = await gated("b1-busy");
    await fixture.pod(aPod("user").on(fixture.nodeName("busy")));
    await fixture.add("busy");
    const event = await fixture.event("GateMissed", "busy");
    expect(event.type).toBe("Warning");
    expect(event.note).toContain("default/user");
    await fixture.settled();
    expect(hasTaint(await fixture.readNode("busy"))).toBe(false);
    expect(await fixture.events("GateMissed", "busy")).toHaveLength(1);
  });
});

describe("a gate in dry run", () => {
  it("I-14 tells in Events and status what it would do to a new node, and writes nothing on it", async () => {
    const mark = await cluster.audit.mark();
    await using fixture = await gated("i14-dry", { dryRun: true });
    await fixture.add("n");
    const held = await fixture.event("WouldHold", "n");
    expect(held.note).toContain("cluster/net: it would be held: pods kube-system");
    const counted = async (expected: object) =>
      eventually(async () => {
        const { status } = await cluster.client.get(startupGates, { name: "net" });
        expect(status).toMatchObject(expected);
        const ready = { type: "Ready", status: "True", reason: "DryRun" };
        expect(status?.conditions).toEqual([expect.objectContaining(ready)]);
      });
    await counted({ selectedNodes: 1, heldNodes: 0, wouldHoldNodes: 1, firstNodes: [fixture.nodeName("n")] });
    await fixture.pod(fixture.init("n"), { ready: true });
    expect((await fixture.event("WouldRelease", "n")).note).toMatch(/would be off since \d{4}-/);
    await counted({ wouldHoldNodes: 0, wouldReleaseNodes: 0 });
    expect(await fixture.nodeWrites(mark, "n")).toEqual([]);
  });
});

describe("the log", () => {
  it("I-9 tells on one line each which gate holds a node, why and what for, and which lets it go", async () => {
    const lines: Record<string, unknown>[] = [];
    const log = createJsonLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
    await using fixture = await gated("i9", {}, { log });
    await fixture.add("n");
    await fixture.held("n");
    await fixture.pod(fixture.init("n"), { ready: true });
    await fixture.free("n");
    await eventually(() => {
      const told = lines.filter(({ node, taint }) => node === fixture.nodeName("n") && taint !== undefined);
      const gate = { gate: "cluster/net", taint: ORIGINAL_TAINT };
      expect(told).toEqual([
        expect.objectContaining({
          ...gate,
          action: "add",
          reason: "Gated",
          waitsFor: [expect.stringContaining("startup.k8s.io/component=init")],
        }),
        expect.objectContaining({ ...gate, action: "remove", reason: "Released" }),
      ]);
    });
    await fixture.settled();
    // Nothing but the taint and the record of it has changed: no other line is about the node.
    expect(lines.filter(({ node }) => node === fixture.nodeName("n"))).toHaveLength(2);
  });
});

describe("a burst", () => {
  it("N-B2 of 100 nodes is let go with one write for each and no read, and only selected pods are kept", async () => {
    await using fixture = await gated("b2");
    const { berth } = fixture;
    let bursts = 0;
    /** @returns how long it takes from the last pod that is ready until all nodes are let go. */
    const burst = async (): Promise<number> => {
      bursts += 1;
      const names = Array.from({ length: 100 }, (_, index) => `n${bursts}-${index}`);
      await each(names, (node) => fixture.addHeld(node));
      await each(names, (node) => fixture.pod(fixture.init(node), { ready: false }));
      await each(names, (node) =>
        fixture.pod(aPod(`user-${node}`).on(fixture.nodeName(node)), { ready: true }),
      );
      await each(names, (node) => fixture.state(node, "held", "net"));
      const mark = await cluster.audit.mark();
      await each(names, (node) => fixture.say({ name: `init-${node}` }, { ready: true }));
      const began = performance.now();
      await each(names, (node) => fixture.free(node));
      const tookMs = performance.now() - began;
      await fixture.settled();
      const asked = await cluster.audit.entriesSince(mark, { userAgent: BERTH });
      const nodesOfStage = new Set(names.map((node) => fixture.nodeName(node)));
      const aboutNodes = asked.filter(({ resource, name }) => resource === "nodes" && nodesOfStage.has(name));
      expect(aboutNodes.filter(({ verb }) => verb !== "patch")).toEqual([]);
      expect(aboutNodes).toHaveLength(100);
      expect(asked.filter(({ resource, verb }) => resource === "pods" && verb !== "watch")).toEqual([]);
      return tookMs;
    };
    expect(await quickest(2000, burst)).toBeLessThan(2000);
    // Those of the bursts and their canaries; as many others are there.
    expect(await metric(berth, "berth_informer_objects", { resource: "pods", informer: "gate-pods" })).toBe(
      bursts * 101,
    );
    expect((await cluster.client.list(pods)).items).toHaveLength(bursts * 201);
  });

  it("N-B2 asks the API server for pods with the labels of the signals only", async () => {
    const mark = await cluster.audit.mark();
    await using fixture = await gated("b2-selectors");
    await fixture.settled();
    const asked = await cluster.audit.entriesSince(mark, { userAgent: BERTH, resource: "pods" });
    expect(asked.length).toBeGreaterThan(0);
    for (const { requestUri } of asked) {
      const { searchParams } = new URL(requestUri, cluster.url);
      // Whether a policy that is no more has left pods held is looked for once, among those without a node.
      if (searchParams.get("fieldSelector") === UNSCHEDULED) continue;
      expect(searchParams.get("labelSelector")).toBe("startup.k8s.io/component=init");
      expect(requestUri).toMatch(/^\/api\/v1\/namespaces\/kube-system\/pods/);
    }
  });
});

describe("a pod that should not open the gate", () => {
  it("N-B4 is one of another namespace, of no DaemonSet, of one that it only names, or one that terminates", async () => {
    await using fixture = await gated("b4");
    await createNamespace(cluster, "tenant");
    await fixture.addHeld("n");
    const ready = { ready: true };
    await fixture.pod(fixture.init("n", "spoof").in("tenant"), ready);
    const nobodys = aPod("nobodys")
      .in("kube-system")
      .labelled(originalGate.podLabels)
      .on(fixture.nodeName("n"));
    await fixture.pod(nobodys.annotated({ [originalGate.ready]: "true" }), ready);
    const wrongUid = "00000000-0000-4000-8000-000000000000";
    await fixture.pod(fixture.init("n", "forged").ofDaemonSet("node-setup", wrongUid), ready);
    await fixture.pod(fixture.init("n", "invented").ofDaemonSet("no-such", wrongUid), ready);
    const { uid } = fixture.setup.metadata ?? {};
    await fixture.pod(fixture.init("n", "other-kind").ownedBy("ReplicaSet", "node-setup", uid), ready);
    const leaving = { namespace: "kube-system", name: "leaving" };
    await fixture.pod(fixture.init("n", "leaving"), { ready: false });
    await cluster.client.delete(pods, leaving, { gracePeriodSeconds: 60 });
    await fixture.say({ name: "leaving" }, ready);
    await fixture.settled();
    expect(hasTaint(await fixture.readNode("n"))).toBe(true);
    await fixture.pod(fixture.init("n", "real"), ready);
    expect(completedAt(await fixture.free("n"))).toMatch(/^\d+$/);
  });
});

describe("a timeout", () => {
  /** Holds go on, and end by these. */
  const shorten = (timeouts: object): Promise<unknown> =>
    cluster.client.patch(startupGates, { name: "net" }, { type: "merge", body: { spec: { timeouts } } });

  it("N-B5 Keep holds the node on, says so once, and lets it go when it is ready after all", async () => {
    await using fixture = await gated("b5-keep", { timeouts: { notReady: "1h" } });
    await fixture.addHeld("n");
    await fixture.pod(fixture.init("n"), { ready: false });
    // The pod has been seen before the time is over.
    await fixture.settled();
    await shorten({ notReady: "1s" });
    const event = await fixture.event("TimedOut", "n");
    expect(event.type).toBe("Warning");
    expect(event.note).toMatch(/not ready within 1s.*kube-system\/init-n/);
    await says(fixture, "net", { heldNodes: 1, timedOutNodes: 1 });
    expect(hasTaint(await fixture.readNode("n"))).toBe(true);
    await fixture.say({ name: "init-n" }, { ready: true });
    const after = await fixture.free("n");
    expect(after.spec?.unschedulable).toBeUndefined();
    expect(stateOf(after, "net")).toMatchObject({ why: "Released" });
    expect(await fixture.events("TimedOut", "n")).toHaveLength(1);
  });

  it("N-B5 Cordon makes the node unschedulable too, until it is ready", async () => {
    await using fixture = await gated("b5-cordon", { timeouts: { notReady: "1s", policy: "Cordon" } });
    await fixture.addHeld("n");
    await fixture.pod(fixture.init("n"), { ready: false });
    await fixture.addHeld("theirs", (it) => it.unschedulable());
    await fixture.pod(fixture.init("theirs"), { ready: false });
    await eventually(async () => expect((await fixture.readNode("n")).spec?.unschedulable).toBe(true));
    await fixture.event("TimedOut", "n");
    await fixture.event("TimedOut", "theirs");
    expect(hasTaint(await fixture.readNode("n"))).toBe(true);
    await fixture.say({ name: "init-n" }, { ready: true });
    await fixture.say({ name: "init-theirs" }, { ready: true });
    expect((await fixture.free("n")).spec?.unschedulable).toBeUndefined();
    expect((await fixture.free("theirs")).spec?.unschedulable).toBe(true);
  });
});

describe("a reboot", () => {
  it("N-B7 holds the node again when the gate says so, until its containers run anew", async () => {
    await using fixture = await gated("b7", { regateOnReboot: true });
    await fixture.addHeld("n", booted("boot-1"));
    const early = new Date(Date.now() - 60_000).toISOString();
    await fixture.pod(fixture.init("n"), { ready: true, startedAt: early });
    await fixture.free("n");
    await boots(fixture, "n", "boot-2");
    const again = await fixture.held("n");
    expect(stateOf(again, "net")).toMatchObject({ state: "held", why: "HeldAgain", boot: "boot-2" });
    await fixture.event("HeldAgain", "n");
    await fixture.settled();
    expect(hasTaint(await fixture.readNode("n"))).toBe(true);
    await fixture.say({ name: "init-n" }, { ready: true });
    expect(stateOf(await fixture.free("n"), "net")).toMatchObject({ state: "released", boot: "boot-2" });
  });
});

describe("what is told", () => {
  it("N-B11 counts held nodes, seconds and releases by reason, and puts Events on the node", async () => {
    await using fixture = await gated("b11", { timeouts: { notReady: "1s" } });
    const { berth } = fixture;
    await fixture.add("n");
    await fixture.held("n");
    await fixture.event("Gated", "n");
    await fixture.event("TimedOut", "n");
    expect(await metric(berth, "berth_startup_gates")).toBe(1);
    await eventually(async () => {
      expect(await metric(berth, "berth_gate_held_nodes")).toBe(1);
      expect(await metric(berth, "berth_gate_timed_out_nodes")).toBe(1);
    });
    await fixture.pod(fixture.init("n"), { ready: true });
    await fixture.free("n");
    const released = await fixture.event("Released", "n");
    expect(released.note).toContain(originalGate.taint.key);
    await eventually(async () => {
      expect(await metric(berth, "berth_gate_held_nodes")).toBe(0);
      expect(await metric(berth, "berth_gate_timed_out_nodes")).toBe(0);
      expect(await metric(berth, "berth_gate_releases_total", { reason: "Released" })).toBe(1);
      expect(await metric(berth, "berth_gate_held_seconds_count")).toBe(1);
      expect(await metric(berth, "berth_gate_held_seconds_sum")).toBeGreaterThanOrEqual(1);
    });
  });

  it("N-B11 says in the status of a gate how many nodes it selects and holds, and whether it is in force", async () => {
    await using fixture = await gated("b11-status");
    await fixture.addHeld("n");
    await says(fixture, "net", {
      observedGeneration: 1,
      selectedNodes: 1,
      heldNodes: 1,
      timedOutNodes: 0,
      firstNodes: [fixture.nodeName("n")],
    });
    await fixture.gate("same-taint", atOnce);
    await eventually(async () => {
      const { status } = await cluster.client.get(startupGates, { name: "same-taint" });
      const ready = { type: "Ready", status: "False", reason: "GateOverlap" };
      expect(status?.conditions).toContainEqual(expect.objectContaining(ready));
    });
    await fixture.pod(fixture.init("n"), { ready: true });
    await says(fixture, "net", { selectedNodes: 1, heldNodes: 0, firstNodes: [] });
  });
});
