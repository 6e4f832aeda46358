import type { Pod } from "@berth/kube";
import { clusterName, createVirtualClock, toTime } from "@berth/runtime";
import { expect, it } from "vitest";
import type { Instance } from "../api/workload.ts";
import { anInstance, aPod, BORN, readyPod } from "../instance/testing/views.ts";
import { PodSight, UNWATCHED_MS } from "./pod-sight.ts";

const running = anInstance({ gates: [] });
const ending = anInstance({ gates: [], deleted: true });
const NONE = { is: "none" };
const { signal } = new AbortController();

/** A watch by label, and what the API server has. */
class World {
  watched: Pod | undefined;
  stored: Pod | undefined;
  synced = true;
  lists = 0;
  readonly clock = createVirtualClock(BORN);
  readonly sight: PodSight;

  constructor() {
    const isSynced = (): boolean => this.synced;
    this.sight = new PodSight({
      pods: {
        get synced() {
          return isSynced();
        },
        get: () => this.watched,
      },
      client: {
        list: () => {
          this.lists += 1;
          return Promise.resolve({ items: this.stored ? [this.stored] : [], metadata: {} } as never);
        },
      },
      cluster: clusterName("local"),
      clock: this.clock,
    });
  }

  leaves(pod: Pod): void {
    this.watched = undefined;
    this.sight.shown({ type: "deleted", object: pod });
  }

  async see(instance: Instance): Promise<unknown> {
    await this.sight.look(instance, signal);
    return this.sight.see(instance);
  }
}

const there = (value: Pod) => ({ is: "there", value });
const going: Pod = { ...readyPod, metadata: { ...readyPod.metadata, deletionTimestamp: toTime(BORN) } };

it("is what the watch shows, without a question", async () => {
  const world = new World();
  expect(await world.see(running)).toEqual(NONE);
  world.watched = readyPod;
  expect(await world.see(running)).toEqual(there(readyPod));
  world.synced = false;
  expect(await world.see(running)).toMatchObject({ is: "unknown" });
  expect(world.lists).toBe(0);
});

it("C20 is there while it runs, although it has lost the label of the watch", async () => {
  const world = new World();
  world.watched = world.stored = readyPod;
  await world.see(running);
  world.leaves(readyPod);
  expect(await world.see(running)).toEqual(there(readyPod));
  world.stored = aPod();
  expect(await world.see(running)).toEqual(there(readyPod));
  await world.clock.advance(UNWATCHED_MS);
  expect(await world.see(running)).toEqual(there(world.stored));
  expect(await world.sight.look(running, signal)).toBe(UNWATCHED_MS);
  expect(world.lists).toBe(2);
});

it("C20 is looked for when the API server refuses a new one", async () => {
  const world = new World();
  world.stored = readyPod;
  expect(await world.see(running)).toEqual(NONE);
  world.sight.doubt(running);
  expect(await world.see(running)).toEqual(there(readyPod));
});

it("C20 of an Instance that ends is gone when the watch shows its end, or the API server says so", async () => {
  const world = new World();
  world.watched = readyPod;
  await world.see(ending);
  world.leaves(going);
  expect([await world.see(ending), world.lists]).toEqual([NONE, 0]);
  const after = new World();
  after.stored = readyPod;
  expect(after.sight.see(ending)).toMatchObject({ is: "unknown" });
  expect(await after.see(ending)).toEqual(there(readyPod));
  after.stored = undefined;
  await after.clock.advance(UNWATCHED_MS);
  expect([await after.see(ending), after.lists]).toEqual([NONE, 2]);
});

it("S-15 is not gone because a pod of another namespace ends that names the uid of its Instance", async () => {
  const world = new World();
  world.stored = readyPod;
  world.sight.see(ending);
  world.leaves({ ...going, metadata: { ...going.metadata, namespace: "evil" } });
  expect(await world.see(ending)).toEqual(there(readyPod));
});

it("of an Instance behind gates has never been", async () => {
  const world = new World();
  expect([await world.see(anInstance({ deleted: true })), world.lists]).toEqual([NONE, 0]);
});
