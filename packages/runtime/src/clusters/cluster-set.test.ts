/** Clusters that join, hang, come back, are restored and leave, on a virtual clock. R-n: see the README of this folder. */
import { isApiError, type KubeClient } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { type ClusterName, clusterName } from "../key.ts";
import { keyIn, startFleet } from "../testing/fleet-setup.ts";
import { things } from "../testing/things.ts";
import { watchView } from "./fleet-view.ts";

const [dfw, ord] = [clusterName("dfw"), clusterName("ord")] as const;

describe("R2 R3 a key has a cluster", () => {
  it("and is dropped and counted when that has not joined: no request, no retry", async () => {
    await using fleet = await startFleet();
    fleet.join("dfw");
    await fleet.clock.advance(10_000);
    fleet.controller.enqueue(keyIn("nowhere", "a"));
    await fleet.clock.advance(600_000);
    expect(fleet.world("dfw").gotten).toEqual([]);
    expect((await fleet.metrics.expose()).body).toContain('unknown_cluster_keys_total{controller="touch"} 1');
    expect(() => clusterName("")).toThrow(RangeError);
  });

  it("and is worked on when the cluster has joined and was read", async () => {
    const seen: string[] = [];
    await using fleet = await startFleet({
      reconcile: ({ cluster, name }) => {
        seen.push(`${cluster}/${name}`);
        return Promise.resolve(undefined);
      },
    });
    fleet.world("dfw").write("a");
    using _ = watchView({ view: fleet.view }).start((key, options) => fleet.controller.enqueue(key, options));
    await fleet.clock.advance(10_000);
    expect(seen).toEqual([]);
    fleet.join("dfw");
    await fleet.clock.advance(1_000);
    expect(seen).toEqual(["dfw/a"]);
  });
});

it("a cluster that is read is told of as a whole, with all that it has, before each of its objects", async () => {
  await using fleet = await startFleet();
  for (const name of ["a", "b"]) fleet.world("dfw").write(name);
  const told: string[] = [];
  using _ = fleet.view.subscribe({
    onChange: ({ object }) => told.push(`${object.metadata?.name}`),
    onState: (of) => told.push(`${fleet.view.state(of)} with ${[...fleet.view.list(of)].length}`),
  });
  fleet.join("dfw");
  await fleet.clock.advance(2_000);
  expect(told.slice(told.indexOf("a") - 1)).toEqual(["synced with 2", "a", "b"]);
});

it("durations are those of all clusters, and queues have their own", async () => {
  await using fleet = await startFleet();
  fleet.join("dfw", "ord");
  await fleet.clock.advance(2_000);
  for (const cluster of ["dfw", "ord"]) fleet.controller.enqueue(keyIn(cluster, "a"));
  await fleet.clock.advance(1_000);
  const { body } = await fleet.metrics.expose();
  const counts = body
    .split("\n")
    .filter((line) => /^(?:reconcile_duration_seconds_count|reconcile_total)/.test(line));
  expect(counts.toSorted()).toEqual([
    'reconcile_duration_seconds_count{controller="touch"} 2',
    'reconcile_total{controller="touch-dfw",result="success"} 1',
    'reconcile_total{controller="touch-ord",result="success"} 1',
  ]);
});

describe("a cluster that hangs", () => {
  it("holds four workers and one probe at most, and delays no other", async () => {
    await using fleet = await startFleet();
    fleet.join("dfw", "ord");
    await fleet.clock.advance(2_000);
    fleet.world("dfw").become("silent");
    const names = Array.from({ length: 100 }, (_, index) => `t${index}`);
    for (const name of names)
      for (const cluster of ["dfw", "ord"]) fleet.controller.enqueue(keyIn(cluster, name));
    for (let ms = 0; ms < 3_000; ms += 100) {
      await fleet.clock.advance(100);
      expect(fleet.world("dfw").inFlight).toBeLessThanOrEqual(5);
    }
    expect(fleet.world("ord").gotten.toSorted()).toEqual(names.toSorted());
    expect(fleet.view.state(ord)).toBe("synced");
  });

  it("is reported as silent within 15 s; its requests end then, and none but probes is sent", async () => {
    await using fleet = await startFleet();
    fleet.join("dfw");
    await fleet.clock.advance(2_000);
    const world = fleet.world("dfw");
    world.become("silent");
    const asked = fleet.set
      .get(dfw)
      ?.client.get(things, { name: "a" })
      .catch((error: unknown) => error);
    await fleet.clock.advance(15_000);
    expect(fleet.set.get(dfw)?.reach).toMatchObject({ is: "no", cause: "Silent" });
    const error = await asked;
    expect(isApiError(error, "unreachable") && error.message).toContain("of cluster dfw: ");
    expect(error).toMatchObject({ failure: { kind: "unreachable" } });
    expect(error).not.toHaveProperty("failure.noConnection");
    const later = await fleet.set
      .get(dfw)
      ?.client.get(things, { name: "a" })
      .catch((cause: unknown) => cause);
    expect(later).toMatchObject({ failure: { kind: "unreachable", noConnection: true } });
    expect(world.inFlight).toBe(1);
    expect(fleet.view.state(dfw)).toBe("stale");
    expect(fleet.set.note?.()).toBe("1 of 1 clusters are not reached: dfw");
  });

  it.each(["silent", "refused"] as const)(
    "%s for 180 s is read, and has its keys due, at once when it returns",
    async (mood) => {
      await using fleet = await startFleet({ random: () => 0.99 });
      fleet.join("dfw");
      fleet.world("dfw").write("a");
      await fleet.clock.advance(2_000);
      fleet.world("dfw").become(mood);
      fleet.world("dfw").write("b");
      for (const name of ["a", "b", "c"]) fleet.controller.enqueue(keyIn("dfw", name));
      await fleet.clock.advance(180_000);
      expect(fleet.world("dfw").gotten).toEqual([]);
      expect(fleet.shown("dfw")).toEqual(["a"]);
      fleet.world("dfw").become("up");
      for (let ms = 0; ms < 1_500 && fleet.set.get(dfw)?.reach.is === "no"; ms += 10)
        await fleet.clock.advance(10);
      await fleet.clock.advance(50);
      expect(fleet.world("dfw").gotten.toSorted()).toEqual(["a", "b", "c"]);
      expect(fleet.shown("dfw")).toEqual(["a", "b"]);
      await fleet.clock.advance(1_000);
      expect(fleet.view.state(dfw)).toBe("synced");
    },
  );

  it("keeps its snapshot: it watches on from where it was, without a list", async () => {
    await using fleet = await startFleet();
    fleet.join("dfw");
    fleet.world("dfw").write("a");
    await fleet.clock.advance(2_000);
    fleet.world("dfw").become("refused");
    await fleet.clock.advance(60_000);
    fleet.world("dfw").become("up");
    await fleet.clock.advance(10_000);
    // The list is of one object: has the store reached version 1?
    expect(fleet.world("dfw").log.requests).toEqual(["snapshot", "list", "watch 1"]);
  });
});

describe("a snapshot counts only if the right cluster gave it", () => {
  it("another cluster at the address is WrongIdentity, and nothing of it is shown", async () => {
    await using fleet = await startFleet();
    fleet.join("dfw");
    fleet.world("dfw").write("a");
    await fleet.clock.advance(2_000);
    fleet.world("dfw").replace("another");
    fleet.world("dfw").write("b");
    for (let ms = 0; ms < 60_000; ms += 500) {
      await fleet.clock.advance(500);
      expect(fleet.shown("dfw").join()).not.toContain("other");
    }
    expect(fleet.set.get(dfw)).toMatchObject({ reach: { cause: "WrongIdentity" }, identity: "uid-dfw" });
    expect(fleet.view.state(dfw)).toBe("unsynced");
    fleet.world("dfw").replace();
    fleet.world("dfw").write("c");
    await fleet.clock.advance(10_000);
    expect([fleet.shown("dfw"), fleet.view.state(dfw)]).toEqual([["c"], "synced"]);
  });

  it.each(["streams", "pages"])(
    "also where the probe reaches the right one, as behind a load balancer, with snapshots in %s",
    async (how) => {
      await using fleet = await startFleet({ refusesStreams: how === "pages" });
      const world = fleet.world("dfw");
      world.write("a");
      const other = fleet.world("other");
      other.write("b");
      world.elsewhere = other;
      const told: unknown[] = [];
      using _ = fleet.view.subscribe({ onChange: (change) => told.push(change) });
      fleet.join("dfw");
      await fleet.clock.advance(60_000);
      expect([told, fleet.shown("dfw"), fleet.view.state(dfw)]).toEqual([[], [], "unsynced"]);
    },
  );

  it("a cluster restored from a backup is unsynced until it was read again", async () => {
    await using fleet = await startFleet();
    const states: string[] = [];
    using _ = fleet.view.subscribe({
      onState: (of) => states.push(`${fleet.view.state(of)} ${fleet.shown("dfw").join()}`),
    });
    fleet.join("dfw");
    for (const name of ["a", "b", "c", "d"]) fleet.world("dfw").write(name);
    await fleet.clock.advance(2_000);
    expect(fleet.shown("dfw")).toEqual(["a", "b", "c", "d"]);
    fleet.world("dfw").restore();
    await fleet.clock.advance(10_000);
    expect([fleet.shown("dfw"), fleet.view.state(dfw)]).toEqual([["a", "b"], "synced"]);
    expect(fleet.set.get(dfw)?.restores).toBe(1);
    expect(states.slice(1).filter((it) => it.startsWith("unsynced"))).toEqual(["unsynced "]);
    expect(states.at(-1)).toBe("synced a,b");
  });

  it("the same where it was written past what the last probe saw, and not past what a watch saw", async () => {
    await using fleet = await startFleet();
    const world = fleet.world("dfw");
    for (const name of ["a", "b"]) world.write(name);
    fleet.join("dfw");
    await fleet.clock.advance(1_000);
    for (const name of ["c", "d", "e", "f"]) world.write(name);
    await fleet.clock.advance(100);
    world.restore();
    world.write("g");
    await fleet.clock.advance(10_000);
    expect([fleet.shown("dfw"), fleet.set.get(dfw)?.restores]).toEqual([["a", "b", "c", "g"], 1]);
  });

  it.each(["streams", "pages"])(
    "the same where it refuses all requests at first, as an API server does that starts, with snapshots in %s",
    async (how) => {
      await using fleet = await startFleet({ refusesStreams: how === "pages" });
      const world = fleet.world("dfw");
      for (const name of ["a", "b"]) world.write(name);
      fleet.join("dfw");
      await fleet.clock.advance(1_000);
      for (const name of ["c", "d", "e", "f"]) world.write(name);
      await fleet.clock.advance(100);
      world.become("forbidden");
      world.restore();
      world.write("g");
      await fleet.clock.advance(2_000);
      world.become("up");
      await fleet.clock.advance(10_000);
      expect([fleet.shown("dfw"), fleet.set.get(dfw)?.restores]).toEqual([["a", "b", "c", "g"], 1]);
    },
  );
});

describe("a view", () => {
  it("tells of changes with their cluster, to late subscribers too", async () => {
    await using fleet = await startFleet();
    const told: string[] = [];
    const follow = () =>
      fleet.view.subscribe({
        onChange: ({ type, object }, of) => told.push(`${of} ${type} ${object.metadata?.name}`),
      });
    using first = follow();
    fleet.join("dfw", "ord");
    for (const [cluster, name] of [
      ["dfw", "a"],
      ["ord", "a"],
    ] as const)
      fleet.world(cluster).write(name);
    await fleet.clock.advance(2_000);
    expect(told.toSorted()).toEqual(["dfw added a", "ord added a"]);
    first[Symbol.dispose]();
    using _ = follow();
    expect(told).toHaveLength(4);
    fleet.world("ord").remove("a");
    await fleet.clock.advance(100);
    expect(told.slice(4)).toEqual(["ord deleted a"]);
  });

  it("is asked by key, by name and by index, in one cluster or in all", async () => {
    await using fleet = await startFleet();
    fleet.join("dfw", "ord");
    for (const cluster of ["dfw", "ord"]) fleet.world(cluster).write(`in-${cluster}`);
    await fleet.clock.advance(2_000);
    const names = (of?: ClusterName) =>
      fleet.view
        .byIndex("all", "all", of)
        .map(({ metadata }) => metadata?.name ?? "")
        .toSorted();
    expect([names(), names(ord)]).toEqual([["in-dfw", "in-ord"], ["in-ord"]]);
    expect(fleet.view.get(keyIn("dfw", "in-dfw"))).toBeDefined();
    expect(fleet.view.get(keyIn("ord", "in-dfw"))).toBeUndefined();
    expect(fleet.view.get(keyIn("nowhere", "in-dfw"))).toBeUndefined();
    const { namespace } = keyIn("ord", "");
    expect(["in-ord", "in-none"].map((it) => fleet.view.having(`${namespace}/${it}`))).toEqual([["ord"], []]);
    expect(() => fleet.view.byIndex("none", "a")).toThrow(RangeError);
    expect(() => fleet.set.view({ resource: things, project: (it) => it })).toThrow("too late");
  });

  it("of a cluster that fails in a handler goes on, here and elsewhere", async () => {
    await using fleet = await startFleet();
    using _ = fleet.view.subscribe({
      onState: () => {
        throw new Error("a handler that fails");
      },
    });
    using __ = fleet.set.subscribe(() => {
      throw new Error("another one");
    });
    fleet.join("dfw", "ord");
    fleet.world("ord").write("a");
    await fleet.clock.advance(2_000);
    expect([fleet.view.state(dfw), fleet.shown("ord")]).toEqual(["synced", ["a"]]);
  });
});

describe("a cluster that leaves", () => {
  it("takes its requests, watches, keys and metrics with it, and tells of no deletion", async () => {
    await using fleet = await startFleet();
    const told: string[] = [];
    using _ = fleet.view.subscribe({
      onChange: ({ type }) => told.push(type),
      onState: (of) => told.push(`${of} ${fleet.view.state(of)}`),
    });
    fleet.join("dfw", "ord");
    fleet.world("dfw").write("a");
    await fleet.clock.advance(2_000);
    fleet.controller.enqueue(keyIn("dfw", "a"));
    await fleet.clock.advance(100);
    const body = async (): Promise<string> => (await fleet.metrics.expose()).body;
    expect(await body()).toContain('cluster_reached{cluster="dfw"} 1');
    expect(await body()).toContain('controller="touch-dfw"');
    await fleet.leave("dfw");
    const { requests } = fleet.world("dfw");
    fleet.controller.enqueue(keyIn("dfw", "a"));
    await fleet.clock.advance(60_000);
    expect(fleet.world("dfw")).toMatchObject({ requests, inFlight: 0 });
    expect(fleet.world("dfw").log.openStreams).toBe(0);
    expect(await body()).not.toContain("dfw");
    expect([fleet.set.get(dfw), fleet.view.state(dfw), fleet.shown("dfw")]).toEqual([
      undefined,
      "absent",
      [],
    ]);
    expect(told).not.toContain("deleted");
    expect(told.at(-1)).toBe("dfw absent");
    expect(fleet.view.state(ord)).toBe("synced");
  });

  it("and joins again begins anew, also before it has left", async () => {
    await using fleet = await startFleet();
    fleet.join("dfw");
    fleet.world("dfw").write("a");
    await fleet.clock.advance(2_000);
    fleet.join("dfw");
    expect(fleet.view.state(dfw)).toBe("unsynced");
    await fleet.clock.advance(2_000);
    expect([fleet.shown("dfw"), fleet.view.state(dfw)]).toEqual([["a"], "synced"]);
    expect(fleet.world("dfw").log.openStreams).toBe(1);
    await fleet.stop();
    expect(fleet.clock.nextInMs).toBeUndefined();
  });
});

it.each([
  ["ten minutes behind, it is ten minutes old", -600_000, 600_000],
  ["ten minutes ahead, it is as old as its first sight", 600_000, 0],
])(
  "by a clock of the cluster that is %s, and the age of its Lease is known once it changes",
  async (_, by, ageMs) => {
    await using fleet = await startFleet();
    const { clock } = fleet;
    const world = fleet.world("dfw");
    const renewedAt = (): number => fleet.set.get(dfw)?.lease?.changedAt ?? Number.NaN;
    const joinedAt = clock.monotonic();
    world.renew(clock.now() + by);
    fleet.join("dfw");
    await clock.advance(1_000);
    expect(joinedAt - renewedAt()).toBeCloseTo(ageMs, -3);
    world.renew(clock.now() + by);
    await clock.advance(6_000);
    expect(clock.monotonic() - renewedAt()).toBeLessThan(6_000);
    await clock.advance(60_000);
    expect(clock.monotonic() - renewedAt()).toBeGreaterThan(60_000);
    expect(fleet.set.get(dfw)?.leaseSilentMs()).toBeCloseTo(clock.monotonic() - renewedAt(), -3);
  },
);

it("a part that fails has its cluster engaged again, and ends neither the others nor the program", async () => {
  await using fleet = await startFleet();
  const { world, clock } = fleet;
  const works = world("dfw").connect();
  const fails = { close: () => Promise.resolve(), list: () => Promise.reject(new Error("no ApiError")) };
  const broken = {
    watch: undefined,
    under: (...place: Parameters<KubeClient["under"]>) =>
      clock.monotonic() < 10_000 ? fails : works.under(...place),
  } as unknown as KubeClient;
  fleet.join("ord");
  fleet.set.join(dfw, { to: broken });
  fleet.world("dfw").write("a");
  await fleet.clock.advance(5_000);
  expect([fleet.view.state(dfw), fleet.view.state(ord)]).toEqual(["unsynced", "synced"]);
  await fleet.clock.advance(60_000);
  expect([fleet.view.state(dfw), fleet.shown("dfw")]).toEqual(["synced", ["a"]]);
});

describe.each([false, true])(
  "a cluster with more than the limit, snapshots in pages: %s",
  (refusesStreams) => {
    const limit = { objects: 3, bytes: 1_000 };
    const overflow = async (more: number) => {
      const fleet = await startFleet({ refusesStreams, limit });
      for (const name of ["a", "b"]) fleet.world("dfw").write(name);
      fleet.join("dfw", "ord");
      await fleet.clock.advance(2_000);
      for (let at = 0; at < more; at += 1) fleet.world("dfw").write(`more-${at}`);
      await fleet.clock.advance(10_000);
      return fleet;
    };

    it("is not read on, and shows what was read last as stale", async () => {
      await using fleet = await overflow(1_000);
      expect(fleet.set.get(dfw)?.excess).toBe(
        "it has more than 3 things.example.com, or more than 0 MiB of them",
      );
      expect(fleet.view.state(dfw)).toBe("stale");
      expect(fleet.shown("dfw").length).toBeLessThanOrEqual(3);
      expect([fleet.set.get(ord)?.excess, fleet.view.state(ord)]).toEqual([undefined, "synced"]);
      const { requests } = fleet.world("dfw");
      await fleet.clock.advance(600_000);
      // Probes of two requests, and one snapshot a minute.
      expect(fleet.world("dfw").requests - requests).toBeLessThan(2 * (600 / 5) + 60);
    });

    it("is read again within a minute once it has less", async () => {
      await using fleet = await overflow(5);
      for (let at = 0; at < 5; at += 1) fleet.world("dfw").remove(`more-${at}`);
      await fleet.clock.advance(70_000);
      expect([fleet.set.get(dfw)?.excess, fleet.view.state(dfw)]).toEqual([undefined, "synced"]);
      expect(fleet.shown("dfw")).toEqual(["a", "b"]);
    });

    it("is within it however often objects change, come and go", async () => {
      await using fleet = await startFleet({ refusesStreams, limit });
      fleet.join("dfw");
      await fleet.clock.advance(2_000);
      for (let at = 0; at < 50; at += 1) {
        fleet.world("dfw").write("same");
        fleet.world("dfw").write(`t${at}`);
        await fleet.clock.advance(100);
        fleet.world("dfw").remove(`t${at}`);
        await fleet.clock.advance(100);
      }
      expect([fleet.set.get(dfw)?.excess, fleet.shown("dfw")]).toEqual([undefined, ["same"]]);
    });

    it("has its bytes counted too", async () => {
      await using fleet = await startFleet({ refusesStreams, limit: { objects: 100, bytes: 1_000 } });
      for (let at = 0; at < 50; at += 1) fleet.world("dfw").write(`t${at}`);
      fleet.join("dfw");
      await fleet.clock.advance(2_000);
      expect(fleet.set.get(dfw)?.excess).toBeDefined();
    });
  },
);
