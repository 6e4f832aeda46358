import type { ApiFailure } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { GONE_MS, MAX_DEPTH } from "./owners.ts";
import { DEPLOYMENT, OwnerWorld, POOL, podOf, refTo } from "./testing/owner-world.ts";

const pod = podOf("a", refTo("ReplicaSet/web-1"));
const CHAIN = ["ReplicaSet/web-1", "Deployment/web", "WorkerPool/pool"];

describe("the owners of a pod", () => {
  it("are read one after another, told of once when all are known, and never read again", async () => {
    await using world = new OwnerWorld();
    expect(world.look(pod)).toBeUndefined();
    await world.clock.advance(100);
    expect(world.told).toEqual(["n1"]);
    expect(world.resolver.owners(pod)).toEqual([
      { group: "apps", kind: "ReplicaSet", resource: "replicasets", name: "web-1", uid: "u-web-1" },
      { group: "apps", kind: "Deployment", resource: "deployments", name: "web", uid: "u-web" },
      { ...POOL, resource: "workerpools", name: "pool", uid: "u-pool" },
    ]);
    await world.clock.advance(24 * 3_600_000);
    expect(world.look(pod)).toEqual(CHAIN);
    expect(world.server.reads).toEqual(CHAIN);
  });

  it("are read once for all pods that wait for them, and each node is told", async () => {
    await using world = new OwnerWorld();
    const pods = ["n1", "n2", "n2", ""].map((node, at) => podOf(`p${at}`, refTo("ReplicaSet/web-1"), node));
    for (const one of pods) world.look(one);
    await world.clock.advance(100);
    expect(world.server.reads).toEqual(CHAIN);
    expect(world.told.toSorted()).toEqual(["", "n1", "n2"]);
  });

  it("are none without a controller, which needs no read", async () => {
    await using world = new OwnerWorld();
    expect(world.look(podOf("bare"))).toEqual([]);
    const { controller: _, ...ref } = refTo("ReplicaSet/web-1");
    expect(world.look(podOf("owned", ref))).toEqual([]);
    expect(world.server.reads).toEqual([]);
  });

  it("are not known while nobody wants any", async () => {
    await using world = new OwnerWorld([]);
    expect(await world.after(pod)).toBeUndefined();
    expect(world.server.reads).toEqual([]);
  });

  it("end where all kinds that are wanted are found", async () => {
    await using world = new OwnerWorld([DEPLOYMENT]);
    expect(await world.after(pod)).toEqual(CHAIN.slice(0, 2));
    world.resolver.want([DEPLOYMENT, POOL]);
    expect(await world.after(pod)).toEqual(CHAIN);
    expect(world.server.reads).toEqual(CHAIN);
  });

  it("end at one that is gone, or another of its name, and are looked for again after a minute", async () => {
    await using world = new OwnerWorld();
    world.server.put("Deployment/web", "WorkerPool/pool", "u-other");
    expect(await world.after(pod)).toEqual(["ReplicaSet/web-1"]);
    expect(world.server.reads).toEqual(CHAIN.slice(0, 2));
    world.server.put("Deployment/web", "WorkerPool/pool");
    expect(await world.after(pod)).toEqual(["ReplicaSet/web-1"]);
    await world.clock.advance(GONE_MS);
    expect(world.look(pod)).toEqual(["ReplicaSet/web-1"]);
    await world.clock.advance(100);
    expect(world.look(pod)).toEqual(CHAIN);
  });

  it("say of the last one when what has made it is gone, and not when it was made by nobody", async () => {
    await using world = new OwnerWorld();
    world.server.objects.delete("Deployment/web");
    await world.after(pod);
    expect(world.resolver.owners(pod)).toMatchObject([{ kind: "ReplicaSet", isAbandoned: true }]);
    const other = podOf("b", refTo("ReplicaSet/web-2"));
    world.server.put("ReplicaSet/web-2");
    await world.after(other);
    expect(world.resolver.owners(other)?.[0]).not.toHaveProperty("isAbandoned");
  });

  it("F-E9 a forged reference says nothing about the owner whose uid it names", async () => {
    await using world = new OwnerWorld();
    const forged = [
      podOf("f1", { ...refTo("ReplicaSet/other"), uid: "u-web-1" }),
      podOf("f2", { ...refTo("ReplicaSet/web-1"), kind: "Nothing", apiVersion: "no.such/v1" }),
      podOf("f3", { ...refTo("ReplicaSet/web-1"), apiVersion: "../v1" }),
      podOf("f4", { ...refTo("ReplicaSet/.."), name: ".." }),
      podOf("f5", refTo("WorkerPool/pool", "u-of-nobody")),
    ];
    for (const one of forged) expect(await world.after(one)).toEqual([]);
    expect(await world.after(pod)).toEqual(CHAIN);
  });

  it("end at a ring and at a depth, which no controller makes, and are read only once", async () => {
    await using world = new OwnerWorld();
    world.server.put("ReplicaSet/r1", "ReplicaSet/r2");
    world.server.put("ReplicaSet/r2", "ReplicaSet/r1");
    const ring = [podOf("r1", refTo("ReplicaSet/r1")), podOf("r2", refTo("ReplicaSet/r2"))];
    for (let at = 0; at < 10; at++) for (const one of ring) await world.after(one);
    expect(ring.map((one) => world.look(one))).toEqual([
      ["ReplicaSet/r1", "ReplicaSet/r2"],
      ["ReplicaSet/r2", "ReplicaSet/r1"],
    ]);
    expect(world.server.reads.length).toBeLessThanOrEqual(4);
    for (let at = 0; at < 20; at++) world.server.put(`ReplicaSet/d${at}`, `ReplicaSet/d${at + 1}`);
    expect(await world.after(podOf("deep", refTo("ReplicaSet/d0")))).toHaveLength(MAX_DEPTH);
  });

  it("F-E11 are read again when an owner has a new child, as others may have taken it over meanwhile", async () => {
    await using world = new OwnerWorld();
    await world.after(pod);
    world.server.put("WorkerPool/pool-2");
    world.server.put("Deployment/web", "WorkerPool/pool-2");
    world.server.put("ReplicaSet/web-2", "Deployment/web");
    expect(world.look(pod)).toEqual(CHAIN);
    expect(world.moved).toBe(0);
    const next = podOf("b", refTo("ReplicaSet/web-2"));
    expect(await world.after(next)).toEqual(["ReplicaSet/web-2", "Deployment/web", "WorkerPool/pool-2"]);
    expect(world.moved).toBe(1);
    expect(await world.after(pod)).toEqual(["ReplicaSet/web-1", "Deployment/web", "WorkerPool/pool-2"]);
    expect(world.server.reads).toEqual([...CHAIN, "ReplicaSet/web-2", "Deployment/web", "WorkerPool/pool-2"]);
  });

  it("stay unknown while a read fails, which is repeated, and are told when it has worked", async () => {
    await using world = new OwnerWorld();
    const failures: ApiFailure[] = [{ kind: "unreachable" }, { kind: "serverError", status: 503 }];
    world.server.failures.set("Deployment/web", failures);
    world.look(pod);
    await world.clock.advance(20);
    expect(world.look(pod)).toBeUndefined();
    await world.clock.advance(5_000);
    expect(world.look(pod)).toEqual(CHAIN);
    expect(world.told).toEqual(["n1"]);
  });

  it("stay unknown without the right to read them, which is named, and asked for of one owner at a time", async () => {
    await using world = new OwnerWorld();
    world.server.denied.add("Deployment");
    for (const name of ["w1", "w2", "w3"]) {
      world.server.put(`Deployment/${name}`);
      world.server.put(`ReplicaSet/${name}-1`, `Deployment/${name}`);
    }
    expect(await world.after(pod)).toBeUndefined();
    expect(world.resolver.whyUnread([])).toMatch(/^get Deployment "web": .*refused/);
    // It is of some footprints, and must not stop the others.
    expect(world.resolver.problem()).toBeUndefined();
    const others = ["w1", "w2", "w3"].map((name) => podOf(name, refTo(`ReplicaSet/${name}-1`)));
    for (const one of others) expect(await world.after(one)).toBeUndefined();
    expect(world.server.reads.filter((read) => read.startsWith("Deployment"))).toEqual(["Deployment/web"]);
    world.server.denied.clear();
    await world.clock.advance(60_000);
    expect(world.look(pod)).toEqual(CHAIN);
    for (const one of others) expect(world.look(one)).toHaveLength(2);
    expect(world.resolver.whyUnread([])).toBeUndefined();
  });

  it("are not said to lack a right, or a kind, that nobody has asked for since it was missing", async () => {
    await using world = new OwnerWorld();
    world.server.denied.add("WorkerPool");
    await world.after(pod, 200);
    expect(world.resolver.whyUnread([POOL])).toMatch(/refused/);
    world.resolver.want([DEPLOYMENT]);
    world.resolver.want([POOL]);
    expect(world.resolver.whyUnread([POOL])).toBeUndefined();
    await world.after(podOf("b", refTo("ReplicaSet/web-1")), 60_000);
    expect(world.resolver.whyUnread([POOL])).toMatch(/refused/);
    world.server.denied.clear();
    world.server.unserved.add("WorkerPool");
    await world.clock.advance(120_000);
    world.resolver.want([]);
    world.resolver.want([POOL]);
    expect(world.resolver.whyUnread([POOL])).toBeUndefined();
  });

  it("cost no more the longer they cannot be read, though pods come and go: one of each node stands for all", async () => {
    await using world = new OwnerWorld();
    world.server.denied.add("Deployment");
    for (let at = 0; at < 50; at++) {
      world.server.put(`ReplicaSet/web-${at}`, "Deployment/web");
      await world.after(podOf(`p${at}`, refTo(`ReplicaSet/web-${at}`), `n${at % 2}`));
    }
    expect(world.resolver.waiting).toBe(2);
    world.server.denied.clear();
    await world.clock.advance(60_000);
    expect(world.told.toSorted()).toEqual(["n0", "n1"]);
    expect(world.resolver.waiting).toBe(0);
  });

  it("end at what may not be read and nobody asks for: it is no problem of ours, and keeps nothing unknown", async () => {
    await using world = new OwnerWorld();
    world.server.denied.add("Secret");
    expect(await world.after(podOf("forged", refTo("Secret/token")))).toEqual([]);
    expect(await world.after(podOf("again", refTo("Secret/other")))).toEqual([]);
    expect(world.server.reads).toEqual(["Secret/token"]);
    expect(world.resolver.whyUnread([{ group: "x.test", kind: "Pool" }])).toBeUndefined();
    expect(await world.after(pod)).toEqual(CHAIN);
    // As the operator that makes a Deployment may be: whoever asks for Deployments need not know it.
    world.server.put("Deployment/made", "Secret/operator");
    world.server.put("ReplicaSet/made-1", "Deployment/made");
    expect(await world.after(podOf("made", refTo("ReplicaSet/made-1")))).toEqual([
      "ReplicaSet/made-1",
      "Deployment/made",
    ]);
    world.server.denied.clear();
    world.server.put("Secret/token", "WorkerPool/pool");
    await world.clock.advance(GONE_MS);
    expect(await world.after(podOf("forged", refTo("Secret/token")))).toEqual([
      "Secret/token",
      "WorkerPool/pool",
    ]);
  });

  it("stay unknown while the server does not have the kind that is asked for, and are told when it has", async () => {
    await using world = new OwnerWorld();
    world.server.unserved.add("WorkerPool");
    expect(await world.after(pod, 1_000)).toBeUndefined();
    world.server.unserved.clear();
    await world.clock.advance(120_000);
    expect(world.told).toEqual(["n1"]);
    expect(world.look(pod)).toEqual(CHAIN);
  });

  it("are all of them where a hold asks for them and knows no kind", async () => {
    await using world = new OwnerWorld([]);
    world.resolver.want([], true);
    expect(await world.after(pod)).toEqual(CHAIN);
  });

  const run = seededRun(100, process.env);
  it(
    `are those of the server in the end, whatever fails and in whichever order pods come (${run.name})`,
    run.options,
    async () => {
      const failure = fc.constantFrom<ApiFailure>(
        { kind: "unreachable" },
        { kind: "timeout", afterMs: 1 },
        { kind: "tooManyRequests", causes: [] },
      );
      const sets = fc.array(
        fc.record({
          deployment: fc.nat(4),
          isGone: fc.boolean(),
          failures: fc.array(failure, { maxLength: 3 }),
        }),
        { minLength: 1, maxLength: 12 },
      );
      const asks = fc.array(fc.tuple(fc.nat(11), fc.integer({ min: 0, max: 12 })), { maxLength: 40 });
      await fc.assert(
        fc.asyncProperty(sets, asks, async (replicaSets, order) => {
          await using world = new OwnerWorld();
          const pods = replicaSets.map(({ deployment, isGone, failures }, at) => {
            const id = `ReplicaSet/r${at}`;
            world.server.put(`Deployment/d${deployment}`, "WorkerPool/pool");
            if (!isGone) world.server.put(id, `Deployment/d${deployment}`);
            world.server.failures.set(id, [...failures]);
            return podOf(`p${at}`, refTo(id), `n${at}`);
          });
          const asked = new Set(pods.slice(0, 1));
          for (const [at, ms] of order) {
            const one = pods[at % pods.length];
            if (one === undefined) continue;
            asked.add(one);
            world.look(one);
            await world.clock.advance(ms);
          }
          for (const one of asked) world.look(one);
          await world.clock.advance(30_000);
          for (const one of asked) {
            const { deployment, isGone } = replicaSets[pods.indexOf(one)] ?? { deployment: 0, isGone: true };
            const chain = [
              `ReplicaSet/r${pods.indexOf(one)}`,
              `Deployment/d${deployment}`,
              "WorkerPool/pool",
            ];
            expect(world.look(one)).toEqual(isGone ? [] : chain);
            expect(world.told).toContain(one.spec?.nodeName);
          }
          expect(world.server.most).toBeLessThanOrEqual(8);
          expect(world.moved).toBe(0);
        }),
        run.parameters,
      );
    },
  );
});
