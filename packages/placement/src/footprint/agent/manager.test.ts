/** The DaemonSets of agents through time: the reconciler against a server that keeps versions, on a clock of our own. */

import { applyPatch } from "@berth/host";
import { ApiError, type ApiFailure, type DaemonSet, type JsonPatchOperation } from "@berth/kube";
import { clusterName, createVirtualClock, type EventInput } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { clientOf, lookingAt } from "../../node/testing/object-run.ts";
import type { Footprint } from "../footprint.ts";
import { ManageProblems } from "./manage-problems.ts";
import { agentRules, managedAgents } from "./manager.ts";

const KEY = "ate.dev/atelet";
const MINUTE = 60_000;
const CLUSTER = clusterName("test");

function aFootprint(init: Partial<Footprint> = {}): Footprint {
  return {
    rule: "cluster/atelet",
    name: "atelet",
    workloads: [],
    grouping: { by: "None" },
    label: { key: KEY, value: "true" },
    foreign: "Reclaim",
    releaseDelayMs: 0,
    agent: { namespace: "ate-system", name: "atelet", nodeSelector: "Manage" },
    ...init,
  };
}

class World {
  readonly clock = createVirtualClock();
  readonly events: EventInput[] = [];
  footprints: readonly Footprint[] | undefined = [aFootprint()];
  pending: number | undefined = 0;
  needed = 3;
  stored: DaemonSet | undefined = {
    metadata: {
      namespace: "ate-system",
      name: "atelet",
      uid: "u1",
      resourceVersion: "1",
      annotations: { "deprecated.daemonset.template.generation": "1" },
    },
    spec: {
      selector: { matchLabels: { app: "atelet" } },
      template: { spec: { containers: [{ name: "atelet" }], nodeSelector: { os: "linux" } } },
    },
  };
  failure: ApiFailure | undefined;
  writes = 0;
  /** Rules of which something else was to be said. */
  readonly asked: string[] = [];
  readonly problems: ManageProblems = new ManageProblems({ onChange: (rule) => this.asked.push(rule) });
  readonly #look = lookingAt({
    rules: agentRules({
      footprints: () => this.footprints,
      counts: () => (this.pending === undefined ? undefined : { needed: this.needed, pending: this.pending }),
      problems: this.problems,
      clock: this.clock,
    }),
    objects: { get: () => this.stored },
    client: clientOf({ patch: (_, { body }) => this.#patch(body as readonly JsonPatchOperation[]) }),
    clock: this.clock,
    events: { record: (event) => this.events.push(event) },
  });

  get selector(): Readonly<Record<string, string>> | undefined {
    return this.stored?.spec?.template.spec?.nodeSelector;
  }

  get reasons(): readonly string[] {
    return this.events.map(({ reason }) => reason);
  }

  /** What is in the way of each footprint, as conditions say it. */
  get inTheWay(): readonly string[] {
    return (this.footprints ?? []).flatMap((it) => {
      const problem = this.problems.of(it);
      return problem === undefined ? [] : [`${it.name}: ${problem.reason}: ${problem.message}`];
    });
  }

  /** As somebody else changes it. */
  select(nodeSelector: Readonly<Record<string, string>>): void {
    const before = this.stored;
    const template = before?.spec?.template;
    if (before?.spec === undefined || template?.spec === undefined) throw new Error("no DaemonSet is stored");
    const spec = { ...before.spec, template: { ...template, spec: { ...template.spec, nodeSelector } } };
    this.#put({ ...before, spec });
  }

  /** Once, and again when nodes have been labelled for long enough. @returns when to look again, ms. */
  async look(): Promise<number | undefined> {
    const after = await this.lookOnce();
    if (after === undefined || after > 2_000) return after;
    await this.clock.advance(after);
    return this.lookOnce();
  }

  async lookOnce(): Promise<number | undefined> {
    return (await this.#look("ate-system", "atelet"))?.recheckAfterMs;
  }

  #patch(patch: readonly JsonPatchOperation[]): DaemonSet {
    if (this.failure !== undefined)
      throw new ApiError(this.failure, { verb: "patch", resource: "daemonsets" });
    this.writes += 1;
    return this.#put(applyPatch(this.stored, patch) as DaemonSet);
  }

  #put(daemonSet: DaemonSet): DaemonSet {
    const resourceVersion = String(Number(this.stored?.metadata?.resourceVersion) + 1);
    this.stored = { ...daemonSet, metadata: { ...daemonSet.metadata, resourceVersion } };
    return this.stored;
  }
}

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
