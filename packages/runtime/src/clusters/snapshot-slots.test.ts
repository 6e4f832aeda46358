import { expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { MAX_SNAPSHOTS, SLOT_MS, SnapshotSlots } from "./snapshot-slots.ts";

/** All slots taken, and two snapshots that wait. */
async function fullSlots() {
  const clock = createVirtualClock();
  const slots = new SnapshotSlots(clock);
  const taken = await Promise.all(Array.from({ length: MAX_SNAPSHOTS }, () => slots.take()));
  const began: string[] = [];
  const stop = new AbortController();
  const begin = (name: string) =>
    slots.take(stop.signal).then((slot) => {
      began.push(name);
      return slot;
    });
  const waiting = [begin("first"), begin("second")] as const;
  await clock.advance(0);
  return { clock, slots, taken, began, stop, begin, waiting };
}

it("a snapshot waits for a slot, in order, and each that ends lets one begin", async () => {
  const { clock, taken, began } = await fullSlots();
  expect(began).toEqual([]);
  taken[0]?.[Symbol.dispose]();
  taken[0]?.[Symbol.dispose]();
  await clock.advance(0);
  expect(began).toEqual(["first"]);
  taken[1]?.[Symbol.dispose]();
  await clock.advance(0);
  expect(began).toEqual(["first", "second"]);
});

it("one that takes too long goes on without its slot", async () => {
  const { clock, taken, began, begin } = await fullSlots();
  await clock.advance(SLOT_MS);
  expect(began).toEqual(["first", "second"]);
  for (const slot of taken) slot[Symbol.dispose]();
  await clock.advance(SLOT_MS);
  for (let at = 0; at < MAX_SNAPSHOTS; at += 1) void begin(`later ${at}`);
  void begin("beyond");
  await clock.advance(0);
  expect(began).toHaveLength(2 + MAX_SNAPSHOTS);
});

it("one that is stopped while it waits has no slot, and leaves none behind", async () => {
  const { clock, slots, taken, began, stop, waiting } = await fullSlots();
  stop.abort();
  for (const slot of await Promise.all(waiting)) slot[Symbol.dispose]();
  expect(began).toEqual(["first", "second"]);
  for (const slot of taken) slot[Symbol.dispose]();
  const again = await Promise.all(Array.from({ length: MAX_SNAPSHOTS }, () => slots.take()));
  for (const slot of again) slot[Symbol.dispose]();
  expect(clock.nextInMs).toBeUndefined();
});
