/** The DaemonSets of agents through time: the reconciler against a server that keeps versions, on a virtual clock. */
import { clusterName } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { aFootprint, KEY, AgentWorld as World } from "../testing/agent-world.ts";
import { managedAgents } from "./manager.ts";

const MINUTE = 60_000;
const CLUSTER = clusterName("test");

describe("an agent that is managed", () => {
  it("F-E14 is left alone until every node that needs it is labelled, then follows by one write", async () => {
    const world = new World();
    for (const pending of [undefined, 3, 1]) {
      world.pending = pending;
      expect(await world.look()).toBeGreaterThan(0);
      expect(world.writes).toBe(0);
    }
    // The controller of DaemonSets has to have heard of the last label, too: two seconds without a node that lacks it.
    for (const pending of [0, 1, 0]) {
      world.pending = pending;
      expect(await world.lookOnce()).toBeGreaterThan(0);
      await world.clock.advance(1_500);
    }
    expect(await world.lookOnce()).toBe(500);
    // Another node came to need it, and was labelled before anybody looked.
    world.needed += 1;
    await world.clock.advance(500);
    expect(await world.lookOnce()).toBe(2000);
    expect(world.writes).toBe(0);
    expect(await world.look()).toBeUndefined();
    expect(world.selector).toEqual({ os: "linux", [KEY]: "true" });
    expect(world.reasons).toEqual(["AgentFollows"]);
    expect(await world.look()).toBeUndefined();
    expect(world.writes).toBe(1);
  });

  it("is not put back while a node that needs it has no label", async () => {
    const world = new World();
    await world.look();
    world.select({});
    world.pending = 1;
    expect(await world.look()).toBeGreaterThan(0);
    expect(world.selector).toEqual({});
  });

  it("keeps its selector when the footprint goes, or only verifies", async () => {
    const world = new World();
    await world.look();
    for (const footprints of [
      [],
      [aFootprint({ agent: { namespace: "ate-system", name: "atelet", nodeSelector: "Verify" } })],
    ]) {
      world.footprints = footprints;
      expect(await world.look()).toBeUndefined();
    }
    expect(world.selector).toEqual({ os: "linux", [KEY]: "true" });
    world.select({ os: "linux" });
    expect(await world.look()).toBeUndefined();
    expect(world.writes).toBe(1);
  });

  it("is left alone while footprints have not been read", async () => {
    const world = new World();
    world.footprints = undefined;
    expect(await world.look()).toBeGreaterThan(0);
    expect(world.writes).toBe(0);
  });

  it("follows to another label by one write, once every node that needs it has that, and leaves none of its own", async () => {
    const world = new World();
    await world.look();
    world.footprints = [aFootprint({ label: { key: "new", value: "true" } })];
    for (const pending of [undefined, 2]) {
      world.pending = pending;
      expect(await world.look()).toBeGreaterThan(0);
      expect(world.selector).toEqual({ os: "linux", [KEY]: "true" });
    }
    world.pending = 0;
    expect(await world.look()).toBeUndefined();
    expect(world.selector).toEqual({ os: "linux", new: "true" });
    // What others put there afterwards is theirs.
    world.select({ [KEY]: "true", new: "true" });
    expect(await world.look()).toBeUndefined();
    expect([world.writes, world.selector]).toEqual([2, { [KEY]: "true", new: "true" }]);
  });

  it("is none of ours while it is being deleted, or not there", async () => {
    const world = new World();
    const { stored } = world;
    world.stored = {
      ...stored,
      metadata: { ...stored?.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    };
    expect(await world.look()).toBeUndefined();
    world.stored = undefined;
    expect(await world.look()).toBeUndefined();
    expect(world.writes).toBe(0);
  });
});

describe("what is in the way of an agent that is managed", () => {
  const REFUSED =
    "atelet: WriteRefused: the DaemonSet ate-system/atelet: its pod template stays as it is: patch daemonsets: the server's authorization refused it; allow Berth to patch it, or have its own manifest ask for ate.dev/atelet=true";

  it("is told once with what to do, whatever is tried meanwhile, until a patch goes through", async () => {
    const world = new World();
    world.failure = { kind: "forbidden", ofObject: true };
    await world.look();
    expect(world.inTheWay).toEqual([REFUSED]);
    for (const pending of [0, 2, undefined, 0]) {
      world.pending = pending;
      world.select({ os: "linux" });
      await world.look();
      expect(world.inTheWay).toEqual([REFUSED]);
    }
    expect([world.asked, world.reasons]).toEqual([["cluster/atelet"], ["WriteRefused"]]);
    world.failure = undefined;
    await world.clock.advance(30_000);
    await world.look();
    expect([world.writes, world.inTheWay]).toEqual([1, []]);
    await world.look();
    expect(world.asked).toEqual(["cluster/atelet", "cluster/atelet"]);
  });

  it("is nothing once somebody else has done it, the DaemonSet is gone, or the footprint wants something else", async () => {
    const ends: readonly ((world: World) => void)[] = [
      (world) => world.select({ [KEY]: "true" }),
      (world) => (world.stored = undefined),
      (world) => (world.footprints = [aFootprint({ label: { key: "other", value: "true" } })]),
      (world) =>
        (world.footprints = [
          aFootprint({ agent: { namespace: "ate-system", name: "atelet", nodeSelector: "Verify" } }),
        ]),
    ];
    for (const end of ends) {
      const world = new World();
      world.failure = { kind: "forbidden", ofObject: true };
      await world.look();
      expect(world.inTheWay).toHaveLength(1);
      end(world);
      world.pending = 1;
      await world.look();
      expect(world.inTheWay).toEqual([]);
    }
  });

  it("is said of a template that somebody else keeps changing", async () => {
    const contested = new World();
    for (let at = 0; at < 5; at++) {
      contested.select({ os: "linux" });
      await contested.look();
    }
    expect(contested.inTheWay).toEqual([expect.stringContaining("Contested") as string]);
    expect([contested.writes, contested.reasons.filter((reason) => reason === "Contested")]).toEqual([
      3,
      ["Contested"],
    ]);
    await contested.clock.advance(5 * MINUTE);
    await contested.look();
    expect(contested.inTheWay).toEqual([]);
  });

  it("is not what was in the way of an earlier Manage, when it manages again", async () => {
    const world = new World();
    world.failure = { kind: "forbidden", ofObject: true };
    await world.look();
    expect(world.inTheWay).toEqual([REFUSED]);
    for (const nodeSelector of ["Verify", "Manage"] as const) {
      world.footprints = [aFootprint({ agent: { namespace: "ate-system", name: "atelet", nodeSelector } })];
      world.problems.keep(world.footprints);
      world.pending = undefined;
      await world.look();
      expect(world.inTheWay).toEqual([]);
    }
  });
});

describe("the agents to look at", () => {
  it("are those of footprints that manage them", () => {
    const verified = { namespace: "a", name: "b", nodeSelector: "Verify" } as const;
    const footprints = [aFootprint(), aFootprint({ agent: verified })];
    expect(managedAgents(footprints, CLUSTER)).toEqual([
      { cluster: CLUSTER, namespace: "ate-system", name: "atelet" },
    ]);
  });
});
