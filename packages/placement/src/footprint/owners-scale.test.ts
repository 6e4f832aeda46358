/** What may not be read at first, and more owners than are remembered: how often is read, and when it ends. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createMemory } from "../node/memory.ts";
import { createNodeReport } from "../node/report.ts";
import { decideFootprints } from "./capability.ts";
import { footprintsOf } from "./testing/footprints.ts";
import { DEPLOYMENT, OwnerWorld, podOf, refTo } from "./testing/owner-world.ts";
import { sightOf } from "./testing/pods.ts";

/** Pods of a Deployment each, six on a node, which are looked at as the writer does: each time something is told. */
class Crowd {
  readonly known = new Set<string>();
  readonly #world: OwnerWorld;
  readonly #nodes: ReadonlyMap<string, readonly Pod[]>;

  constructor(world: OwnerWorld, size: number) {
    this.#world = world;
    const pods = Array.from({ length: size }, (_, at) => {
      world.server.put(`Deployment/d${at}`);
      world.server.put(`ReplicaSet/r${at}`, `Deployment/d${at}`);
      return podOf(`p${at}`, refTo(`ReplicaSet/r${at}`), `n${Math.floor(at / 6)}`);
    });
    this.#nodes = Map.groupBy(pods, ({ spec }) => spec?.nodeName ?? "");
    world.onNode = (node) => this.#look(node);
    world.onAll = () => this.lookAtAll();
  }

  get nodes(): number {
    return this.#nodes.size;
  }

  lookAtAll(): void {
    for (const node of this.#nodes.keys()) this.#look(node);
  }

  #look(node: string): void {
    const answers = (this.#nodes.get(node) ?? []).map((pod) => this.#world.resolver.owners(pod));
    if (answers.every((answer) => answer !== undefined)) this.known.add(node);
  }
}

describe("the owners of many pods", () => {
  it.each([
    ["are read once each, where all can be remembered", 1200, 600, 1200],
    ["are read once each for a look at all nodes, where not all of them can", 700, 600, 1200],
  ])("%s", async (_name, maxOwners, size, reads) => {
    await using world = new OwnerWorld([DEPLOYMENT], { maxOwners });
    const crowd = new Crowd(world, size);
    crowd.lookAtAll();
    for (let second = 0; second < 60; second++) await world.clock.advance(1_000);
    expect(crowd.known.size).toBe(crowd.nodes);
    expect(world.server.reads).toHaveLength(reads);
    expect(world.resolver.size).toBeLessThanOrEqual(maxOwners);
  });
});

describe("S-10 owners that pods name", () => {
  it("take half a kilobyte each, however long they are", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const heap = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    await using world = new OwnerWorld([DEPLOYMENT], { maxOwners: 20_000 });
    world.server.denied.add("Secret");
    await world.clock.advance(1_000);
    const before = heap();
    const long = (at: number): string => `${at}`.padEnd(506, "x");
    for (let at = 0; at < 20_000; at++) {
      world.look(podOf("p", { ...refTo(`Secret/${long(at)}`), uid: long(at) }, `n${at % 10}`));
      if (at % 1_000 === 999) await world.clock.advance(10_000);
    }
    expect(world.resolver.size).toBeGreaterThan(15_000);
    expect(heap() - before).toBeLessThan(20_000 * 512);
  });

  it("are forgotten beyond their bytes, and what is no name is not remembered", async () => {
    await using world = new OwnerWorld([DEPLOYMENT], { maxOwners: 1_000 });
    for (let at = 0; at < 1_000; at++) {
      world.server.put(`ReplicaSet/r${at}`, `ReplicaSet/${`${at}`.padEnd(500, "x")}`);
      world.look(podOf(`p${at}`, refTo(`ReplicaSet/r${at}`), `n${at}`));
      await world.clock.advance(20);
    }
    expect(world.resolver.size).toBeLessThan(800);
    world.server.put("ReplicaSet/last", `ReplicaSet/${"x".repeat(1_000_000)}`);
    world.look(podOf("last", refTo("ReplicaSet/last")));
    await world.clock.advance(1_000);
    expect(world.look(podOf("last", refTo("ReplicaSet/last")))).toEqual(["ReplicaSet/last"]);
    expect(world.look(podOf("bidi", refTo("ReplicaSet/\u202e")))).toEqual([]);
  });
});

describe("what is above a pod and may not be read", () => {
  it("is read again when somebody asks a minute later, and its pods are looked at again once it may be", async () => {
    await using world = new OwnerWorld();
    world.server.put("Secret/middle", "WorkerPool/pool");
    world.server.denied.add("Secret");
    const pods = [podOf("a", refTo("Secret/middle")), podOf("b", refTo("Secret/other"), "n2")];
    for (const one of pods) world.look(one);
    await world.clock.advance(1_000);
    expect(world.told.toSorted()).toEqual(["n1", "n2"]);
    expect(pods.map((one) => world.look(one))).toEqual([[], []]);
    const tried = world.server.reads.length;
    for (let minute = 0; minute < 10; minute++) {
      await world.clock.advance(60_000);
      for (const one of pods) world.look(one);
    }
    expect(world.server.reads.length).toBeLessThanOrEqual(tried + 20);
    expect(world.moved).toBe(0);
    world.server.denied.delete("Secret");
    await world.clock.advance(60_000);
    for (const one of pods) world.look(one);
    await world.clock.advance(1_000);
    expect(world.moved).toBe(1);
    for (const one of pods) world.look(one);
    await world.clock.advance(100);
    expect(pods.map((one) => world.look(one))).toEqual([["Secret/middle", "WorkerPool/pool"], []]);
    const settled = world.server.reads.length;
    for (let minute = 0; minute < 10; minute++) await world.clock.advance(60_000);
    expect(world.server.reads).toHaveLength(settled);
  });

  it("is tried no more once nobody asks for owners", async () => {
    await using world = new OwnerWorld();
    world.server.denied.add("Secret");
    world.look(podOf("a", refTo("Secret/middle")));
    await world.clock.advance(1_000);
    world.resolver.want([]);
    const { length } = world.server.reads;
    for (let minute = 0; minute < 10; minute++) await world.clock.advance(60_000);
    expect(world.server.reads).toHaveLength(length);
  });

  it("has a pod with a forged group told of once, however long that lasts", async () => {
    await using world = new OwnerWorld();
    world.server.denied.add("Secret");
    const footprints = footprintsOf({ f: { preset: "agent-substrate/pr-134" } });
    const made = podOf("a", refTo("Secret/mine"));
    const labels = { "ate.dev/worker-pool-uid": "u-pool" };
    const forged = { ...made, status: { phase: "Running" }, metadata: { ...made.metadata, labels } };
    const events: string[] = [];
    const report = createNodeReport({ record: ({ reason }) => void events.push(reason) }, undefined);
    const node = { metadata: { name: "n1", uid: "u", resourceVersion: "1" } };
    const memory = createMemory("u");
    const observations = { ...sightOf({ pods: [forged] }), owners: (pod: Pod) => world.resolver.owners(pod) };
    const decide = (): void => {
      const { findings } = decideFootprints({ node, owned: new Map() }, footprints, {
        observations,
      }).decision;
      report.findings(node, memory, findings);
    };
    world.onNode = decide;
    decide();
    for (let minute = 0; minute < 10; minute++) {
      await world.clock.advance(61_000);
      decide();
    }
    await world.clock.advance(1_000);
    expect(events).toEqual(["FootprintGroupRefused"]);
  });
});
