/** Random histories of a Workload: its controllers as they are wired, on caches that are behind, with kills and outages. */
import { type KubeObject, pods, type Resource } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun, steps } from "../../runtime/src/testing/property.ts";
import { resourceClaims } from "./api/quota.ts";
import { instances, workloadDeployments, workloads } from "./api/workload.ts";
import { FleetWorld, isReady, ordinal } from "./testing/fleet-world.ts";

const KINDS: readonly Resource[] = [workloads, workloadDeployments, instances, pods, resourceClaims];
const at = fc.constantFrom(0, 0, 1, 1, 2);
const min = fc.constantFrom(0, 1, 2, 3);
const image = fc.constantFrom("app:1", "app:2");
const kind = fc.constantFrom(...KINDS);

const step = fc.oneof(
  steps(12, ["workloads", "workload-deployments", "instances", "instances", "instances"], { at }),
  steps(10, ["see"], { kind, states: fc.constantFrom(1, 2, Number.POSITIVE_INFINITY) }),
  steps(6, ["ready", "ready", "unready", "end", "end", "evict"], { at }),
  steps(4, ["grant", "grant", "deny", "outage", "recovery"], { at }),
  steps(4, ["scale", "roll", "remove", "claim-for-gone", "round", "round"], { at, min, image }),
  steps(2, ["pass"], { ms: fc.constantFrom(50, 1_000, 20_000, 400_000) }),
  steps(2, ["kill", "restart"], { requests: fc.nat(4), isAfter: fc.boolean() }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

async function take(world: FleetWorld, one: Step): Promise<void> {
  if (one.do === "see") world.life.cacheOf(one.kind).see(one.states);
  else if ("ms" in one) await world.clock.advance(one.ms);
  else if ("requests" in one) {
    if (one.do === "restart") return world.restart();
    world.life.requestsLeft = one.requests;
    world.life.killsAfter = one.isAfter;
  } else if (one.do === "ready" || one.do === "unready") world.ready(one.at, one.do === "ready");
  else if (one.do === "end") world.end(one.at);
  else if (one.do === "evict") world.evict(one.at);
  else if (one.do === "grant" || one.do === "deny") world.decide(one.at, one.do === "grant");
  else if (one.do === "outage" || one.do === "recovery") world.isQuotaDown = one.do === "outage";
  else if (one.do === "scale") world.scale(one.min);
  else if (one.do === "roll") world.roll(one.image);
  else if (one.do === "remove") world.removeInstance(one.at);
  else if (one.do === "claim-for-gone") world.claimForGone(one.at);
  else if (one.do === "round") await world.round();
  else await world.look(one.do, one.at);
}

describe("any history of one Workload", () => {
  const run = seededRun(100, process.env);
  it(
    `loses no Instance that it needs, opens no gate without a grant, and ends as it should (${run.name})`,
    run.options,
    async () => {
      const property = fc.asyncProperty(
        fc.array(step, { maxLength: 60 }),
        fc.boolean(),
        min,
        fc.array(step, { maxLength: 20 }),
        async (history, isDeep, last, after) => {
          const world = new FleetWorld(2);
          if (isDeep) await world.settle();
          for (const one of history) await take(world, one);
          world.life.requestsLeft = Number.POSITIVE_INFINITY;
          world.scale(last);
          world.roll("app:3");
          await world.settle();
          expect(world.violations).toEqual([]);
          expect(world.instances.map((it) => [ordinal(it), isReady(it)])).toEqual(
            Array.from({ length: last }, (_, ordinalOfIt) => [ordinalOfIt, true]),
          );
          expect([world.server.all(pods).length, world.server.all(resourceClaims).length]).toEqual([
            last,
            last,
          ]);
          for (const { status, metadata } of [world.workload ?? {}, world.deployment ?? {}])
            expect(status).toMatchObject({
              replicas: last,
              readyReplicas: last,
              updatedReplicas: last,
              desiredReplicas: last,
              observedGeneration: metadata?.generation,
            });
          world.scale(3);
          world.life.seeAll();
          for (const one of after) await take(world, one);
          world.life.requestsLeft = Number.POSITIVE_INFINITY;
          world.removeWorkload();
          await world.settle();
          expect(world.violations).toEqual([]);
          expect(KINDS.map((it) => world.server.all(it).length)).toEqual([0, 0, 0, 0, 0]);
        },
      );
      await fc.assert(property, run.parameters);
    },
  );
});

describe("a process whose cache is behind", () => {
  const settledWithout = async (...kinds: readonly Resource[]): Promise<FleetWorld> => {
    const world = new FleetWorld(1);
    for (let round = 0; round < 10; round += 1) {
      await world.roundWithout(...kinds);
      world.decide(0, true);
    }
    return world;
  };

  it("takes down a pod that it has made and not seen, before it lets the Instance go", async () => {
    const world = await settledWithout(pods);
    expect(world.server.all(pods)).toHaveLength(1);
    world.removeInstance(0);
    for (let round = 0; round < 3; round += 1) await world.roundWithout(pods);
    expect(world.server.all(pods)[0]?.metadata?.deletionTimestamp).toBeDefined();
    expect(world.instances).toHaveLength(1);
    world.end(0);
    await world.roundWithout();
    await world.roundWithout();
    expect(world.server.all(pods)).toEqual([]);
    expect(world.violations).toEqual([]);
  });

  it.each([
    ["deployment", workloadDeployments, workloads],
    ["Instance", instances, workloadDeployments],
  ])("takes down a %s that it has made and not seen, before it lets the owner go", async (_, kind, owner) => {
    const world = await settledWithout(kind);
    expect(world.server.all<KubeObject>(kind)).toHaveLength(1);
    world.removeWorkload();
    for (let round = 0; round < 3; round += 1) await world.roundWithout(kind);
    expect(world.server.all<KubeObject>(kind)[0]?.metadata?.deletionTimestamp).toBeDefined();
    expect(world.server.all<KubeObject>(owner)).toHaveLength(1);
    await world.settle();
    expect(KINDS.map((it) => world.server.all(it).length)).toEqual([0, 0, 0, 0, 0]);
  });

  it("takes no Ready Instance down for a roll while it has shown another one as down, and not seen that", async () => {
    const world = new FleetWorld(2);
    await world.settle();
    world.ready(0, false);
    world.roll("app:2");
    world.life.cacheOf(pods).see();
    await world.look("instances", 0);
    world.life.cacheOf(workloads).see();
    await world.look("workloads", 0);
    world.life.cacheOf(workloadDeployments).see();
    await world.look("workload-deployments", 0);
    expect(world.violations).toEqual([]);
    const isGoing = ({ metadata }: KubeObject) => metadata?.deletionTimestamp !== undefined;
    expect(world.instances.map(isGoing)).toEqual([true, false]);
  });

  it("asks for no object again that it has made and not seen", async () => {
    const world = new FleetWorld(1);
    for (let round = 0; round < 10; round += 1) {
      await world.roundWithout(workloadDeployments, instances, pods);
      await world.clock.advance(2_500);
    }
    expect(world.server.refusals).toBe(0);
    await world.settle();
    for (const { status } of [world.workload ?? {}, world.deployment ?? {}])
      expect(JSON.stringify(status)).not.toContain("not created");
  });

  it("leaves no claim of an Instance that is gone, and keeps that of one that it has not seen", async () => {
    const world = await settledWithout();
    world.claimForGone(1);
    const unseen = world.server.create<KubeObject>(instances, { metadata: { name: "w-us-dfw-2" } });
    world.claimForGone(2, unseen.metadata?.uid);
    world.life.cacheOf(resourceClaims).see();
    for (const at of [0, 1, 2]) await world.look("instances", at);
    const names = world.server.all(resourceClaims).map(({ metadata }) => metadata?.name);
    expect(names).toEqual(["instance-w-us-dfw-0", "instance-w-us-dfw-2"]);
  });
});
