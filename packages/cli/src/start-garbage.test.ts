import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { collectAll, collectStartGarbage } from "./start-garbage.ts";

describe("what a start leaves", () => {
  const clock = createVirtualClock();

  it.each([
    ["is collected once, twenty seconds after the Nodes are read", 40, 1],
    ["is left to V8 in a large heap", 200, 0],
  ])("%s", async (_, megabytes, times) => {
    const nodes = Promise.withResolvers<boolean>();
    let collected = 0;
    const heap = { usedBytes: () => megabytes * 1024 * 1024, collect: () => void collected++ };
    const { signal } = new AbortController();
    const done = collectStartGarbage({ whenSynced: () => nodes.promise }, { clock, signal, heap });
    await clock.advance(60_000);
    nodes.resolve(true);
    await clock.advance(19_999);
    expect(collected).toBe(0);
    await clock.advance(1);
    await done;
    expect(collected).toBe(times);
  });

  it("stays when the process ends before", async () => {
    const stop = new AbortController();
    const heap = { usedBytes: () => 0, collect: () => expect.unreachable() };
    const nodes = { whenSynced: () => Promise.resolve(!stop.signal.aborted) };
    const during = collectStartGarbage(nodes, { clock, signal: stop.signal, heap });
    await clock.advance(1000);
    stop.abort();
    await during;
    await collectStartGarbage(nodes, { clock, signal: stop.signal, heap });
  });

  it("is what the collector of Node takes", async () => {
    let garbage: { readonly big: readonly number[] } | undefined = {
      big: Array.from({ length: 1000 }, () => 1),
    };
    const ref = new WeakRef(garbage);
    garbage = undefined;
    await new Promise((resolve) => setImmediate(resolve));
    collectAll();
    expect(ref.deref()).toBeUndefined();
  });
});
