/** The controller of Instances as it is wired, on a model of the API server and a virtual clock. */
import { pods } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { gates } from "../api/keys.ts";
import { resourceClaims } from "../api/quota.ts";
import { instances, workloadDeployments, workloads } from "../api/workload.ts";
import { hasGate } from "../instance/tiers.ts";
import { FleetWorld } from "../testing/fleet-world.ts";

const NAME = "w-us-dfw-0";
const at = (seconds: number): number => seconds * 1000;

/** One Instance, whose claim is made and not decided, so many seconds after its creation. */
async function pending(ageMs: number): Promise<FleetWorld> {
  const world = new FleetWorld(1);
  for (let rounds = 0; rounds < 8; rounds += 1) await world.round();
  expect(world.server.all(resourceClaims)).toHaveLength(1);
  await world.clock.advance(ageMs);
  return world;
}

/** Another writer changes the Instance, and the cache does not show it. */
function changeUnseen(world: FleetWorld): void {
  world.server.patch(
    instances,
    { name: NAME },
    { type: "merge", body: { metadata: { labels: { other: "x" } } } },
  );
}

const conditionOf = (world: FleetWorld, type: string): string => {
  const { status, reason } = world.instances[0]?.status?.conditions?.find((it) => it.type === type) ?? {};
  return `${status}/${reason}`;
};

describe("R8b a status that meets a newer version while quota is pending", () => {
  it.each([
    [45, 1],
    [90, 15],
    [400, 60],
    [900, 300],
  ])("R8b is no error, and after %d s the next look is within the tier of %d s", async (age, tier) => {
    const world = await pending(at(age));
    world.isQuotaDown = true;
    changeUnseen(world);
    const looks = [];
    for (let n = 0; n < 5; n += 1) looks.push(await world.life.reconcile("instances", NAME));
    for (const { recheckAfterMs = Number.NaN } of looks.map((it) => it ?? {})) {
      expect(recheckAfterMs).toBeGreaterThan(0);
      expect(recheckAfterMs).toBeLessThanOrEqual(at(tier));
    }
    const { body } = await world.life.metrics.expose();
    expect(body).toContain(`compute_quota_requeues_total{tier="${tier}s",cause="conflict"} 5`);
    expect(body).toContain('compute_quota_eval_failures_total{reason="QuotaBackendUnavailable"} 1');
  });

  it("R8b that stays so is looked at again at the time of the tier, and not before", async () => {
    const world = await pending(at(62));
    world.isQuotaDown = true;
    changeUnseen(world);
    // A write that met newer versions three times rests for 30 s.
    for (let n = 0; n < 3; n += 1) await world.life.reconcile("instances", NAME);
    const { recheckAfterMs } = (await world.life.reconcile("instances", NAME)) ?? {};
    expect(recheckAfterMs).toBeGreaterThanOrEqual(at(13.5));
    expect(recheckAfterMs).toBeLessThanOrEqual(at(15));
  });

  it("R8b is still an error when it fails for another reason", async () => {
    const world = await pending(at(90));
    world.isQuotaDown = true;
    world.life.requestsLeft = 0;
    await expect(world.life.reconcile("instances", NAME)).rejects.toThrow(/patch instances/);
  });
});

describe("a grant", () => {
  it("R20 that is seen is stored, and its gate goes in the same pass", async () => {
    const world = await pending(at(5));
    world.decide(0, true);
    world.life.seeAll();
    await world.life.reconcile("instances", NAME);
    const [instance = {}] = world.instances;
    expect(conditionOf(world, "QuotaGranted")).toBe("True/QuotaAvailable");
    expect(hasGate(instance, gates.quota)).toBe(false);
    // The pod is made in this pass too: nothing waits for the cache.
    expect(world.server.all(pods)).toHaveLength(1);
  });

  it.each([
    [5, 1],
    [120, 15],
  ])("A14 R8 that no watch shows opens the gate of an Instance of %d s within %d s", async (age, tier) => {
    const world = await pending(0);
    // Berth looks at it when it says so, and at no other time.
    const lookUntil = async (done: () => boolean): Promise<void> => {
      while (!done()) {
        const { recheckAfterMs } = (await world.life.reconcile("instances", NAME)) ?? {};
        world.life.cacheOf(instances).see();
        if (done()) return;
        await world.clock.advance(recheckAfterMs ?? Number.NaN);
      }
    };
    const bornMs = world.clock.now();
    await lookUntil(() => world.clock.now() >= bornMs + at(age));
    const grantedMs = world.clock.now();
    world.decide(0, true);
    await lookUntil(() => world.instances.every((it) => !hasGate(it, gates.quota)));
    expect(world.clock.now() - grantedMs).toBeLessThanOrEqual(at(tier));
    expect(conditionOf(world, "QuotaGranted")).toBe("True/QuotaAvailable");
  });
});

it("a pod that the API server fails to create in other words each time is said, and tried in its own time", async () => {
  const world = await pending(at(5));
  world.decide(0, true);
  for (const n of [0, 1, 2, 3]) {
    world.life.faults.set("create pods", { kind: "serverError", status: 500 + n });
    await world.round();
    await world.clock.advance(at(10));
  }
  expect(conditionOf(world, "Ready")).toBe("False/ConfigurationError");
  expect(world.life.asked).toEqual([`instances ${NAME}`]);
});

it("R10 what a user has to know is an Event of the Instance, once: a Warning, or news", async () => {
  const world = await pending(at(29));
  const told = () => world.life.events.filter((it) => it.endsWith(` ${NAME}`));
  await world.round();
  expect(told()).toEqual([]);
  await world.clock.advance(at(2));
  for (let n = 0; n < 3; n += 1) await world.round();
  expect(told()).toEqual([`Warning QuotaNoBudget ${NAME}`]);
  world.decide(0, true);
  for (let n = 0; n < 3; n += 1) await world.round();
  world.ready(0, true);
  for (let n = 0; n < 3; n += 1) await world.round();
  expect(told()).toEqual([
    `Warning QuotaNoBudget ${NAME}`,
    `Normal QuotaGranted ${NAME}`,
    `Normal Ready ${NAME}`,
  ]);
});

it("F4 each look is counted, and a further one has a debug line with its age, its tier and its cause", async () => {
  const world = await pending(at(120));
  world.life.debugLines.length = 0;
  await world.life.reconcile("instances", NAME);
  expect(world.life.debugLines).toEqual([
    {
      ageMs: at(120),
      tier: "15s",
      cause: "pending",
      waitsFor: expect.any(String),
      recheckAfterMs: expect.any(Number),
    },
  ]);
  world.decide(0, true);
  await world.round();
  const { body } = await world.life.metrics.expose();
  for (const sample of [
    'compute_quota_requeues_total{tier="15s",cause="pending"} 1',
    "compute_quota_gate_wait_seconds_count 1",
    "compute_quota_gate_wait_seconds_sum 120",
  ])
    expect(body.split("\n")).toContain(sample);
  for (const controller of ["workload", "deployment", "instance"])
    expect(body).toMatch(
      new RegExp(`compute_reconcile_total\\{controller="${controller}",result="success"\\} [1-9]`),
    );
});

it("A23 at rest no look writes or asks, and none leads to another one within a minute", async () => {
  const world = new FleetWorld(3);
  await world.settle();
  expect(world.violations).toEqual([]);
  const versions = [workloads, workloadDeployments, instances, pods, resourceClaims].map(
    (kind) => world.server.statesOf(kind).length,
  );
  world.life.requestsLeft = 0;
  const looks: readonly (readonly ["workloads" | "workload-deployments" | "instances", string])[] = [
    ["workloads", "w"],
    ["workload-deployments", "w-us-dfw"],
    ...[0, 1, 2].map((n) => ["instances", `w-us-dfw-${n}`] as const),
  ];
  for (const [controller, name] of looks) {
    const { recheckAfterMs = Number.POSITIVE_INFINITY } =
      (await world.life.reconcile(controller, name)) ?? {};
    expect([name, recheckAfterMs > at(60)]).toEqual([name, true]);
  }
  expect(
    [workloads, workloadDeployments, instances, pods, resourceClaims].map(
      (kind) => world.server.statesOf(kind).length,
    ),
  ).toEqual(versions);
});
