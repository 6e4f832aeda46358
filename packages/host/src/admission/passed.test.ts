import type { KubeObject } from "@berth/kube";
import { createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import { createPassedWatch } from "./passed.ts";

function watching() {
  const clock = createVirtualClock();
  let works = true;
  const watch = createPassedWatch(
    {
      passed: ({ metadata }) =>
        metadata?.name === "gated" || (metadata?.name === "bare" ? "missed" : undefined),
    },
    { works: () => works, clock },
  );
  const object = (name: string): KubeObject => ({
    metadata: { name, creationTimestamp: new Date(clock.now()).toISOString() },
  });
  return {
    clock,
    watch,
    object,
    fail: () => void (works = false),
    come: (it: KubeObject | string, initial = false) =>
      watch.seen({ type: "added", object: typeof it === "string" ? object(it) : it, initial }),
  };
}

it("an object that has not come through admission is told, until one has", async () => {
  const { clock, watch, come } = watching();
  await clock.advance(10_000);
  expect([come("bare"), come("bare"), come("other"), watch.problem()]).toEqual([
    true,
    false,
    false,
    "missed",
  ]);
  expect([come("gated"), watch.problem()]).toEqual([true, undefined]);
});

it("nothing is told while a change is on its way, of older objects, nor of admission that does not work", async () => {
  const { clock, watch, object, come, fail } = watching();
  await clock.advance(60_000);
  watch.changed();
  const early = object("bare");
  await clock.advance(9000);
  expect(come("bare")).toBe(false);
  await clock.advance(9000);
  expect([come(early), come("bare", true)]).toEqual([false, false]);
  expect(watch.seen({ type: "updated", object: object("bare"), old: object("gated") })).toBe(false);
  fail();
  expect([come("bare"), watch.problem()]).toEqual([false, undefined]);
});
