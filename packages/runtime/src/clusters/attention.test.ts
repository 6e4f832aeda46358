import { expect, it } from "vitest";
import type { Clock } from "../clock.ts";
import { Attention } from "./attention.ts";

it("time for which the process stood still does not count", async () => {
  let nowMs = 0;
  const due: (() => void)[] = [];
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    schedule(_, callback) {
      due.push(callback);
      return { [Symbol.dispose]: () => undefined };
    },
  };
  const attention = new Attention(clock);
  const stop = new AbortController();
  const running = attention.run(stop.signal);
  const seen: number[] = [];
  for (const tookMs of [500, 3_500, 500]) {
    nowMs += tookMs;
    due.shift()?.();
    await Promise.resolve();
    await Promise.resolve();
    seen.push(attention.nowMs);
  }
  expect(seen).toEqual([500, 1_000, 1_500]);
  stop.abort();
  await running;
});
