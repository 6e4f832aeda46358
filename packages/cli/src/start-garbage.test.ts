import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { collectStartGarbage } from "./start-garbage.ts";

describe("what a start leaves", () => {
  const clock = createVirtualClock();

  it("is collected once, twenty seconds after the Nodes are read", async () => {
    const nodes = Promise.withResolvers<boolean>();
    let collected = 0;
    const { signal } = new AbortController();
    const done = collectStartGarbage(
      { whenSynced: () => nodes.promise },
      { clock, signal, collect: () => void collected++ },
    );
    await clock.advance(60_000);
    nodes.resolve(true);
    await clock.advance(19_999);
    expect(collected).toBe(0);
    await clock.advance(1);
    await done;
    expect(collected).toBe(1);
  });

  it("stays when the process ends before", async () => {
    const stop = new AbortController();
    const collect = (): void => expect.unreachable();
    const nodes = { whenSynced: () => Promise.resolve(!stop.signal.aborted) };
    const during = collectStartGarbage(nodes, { clock, signal: stop.signal, collect });
    await clock.advance(1000);
    stop.abort();
    await during;
    await collectStartGarbage(nodes, { clock, signal: stop.signal, collect });
  });

  it("is what the collector of Node takes", async () => {
    let garbage: { readonly big: readonly number[] } | undefined = { big: new Array<number>(1000).fill(1) };
    const ref = new WeakRef(garbage);
    garbage = undefined;
    const { signal } = new AbortController();
    const done = collectStartGarbage({ whenSynced: () => Promise.resolve(true) }, { clock, signal });
    await clock.advance(20_000);
    await done;
    await new Promise((resolve) => setImmediate(resolve));
    expect(ref.deref()).toBeUndefined();
  });
});
