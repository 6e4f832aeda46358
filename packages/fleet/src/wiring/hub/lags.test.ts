import { createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import { Lags } from "./lags.ts";

it("2.9 a deployment that lags behind is pushed after a minute, and once a minute", async () => {
  const clock = createVirtualClock();
  const lags = new Lags(clock);
  expect([lags.forMs("u", "1"), lags.push("u", "1")]).toEqual([0, 60_000]);
  await clock.advance(59_999);
  expect([lags.forMs("u", "1"), lags.push("u", "1")]).toEqual([59_999, 1]);
  await clock.advance(1);
  expect([lags.push("u", "1"), lags.push("u", "1")]).toEqual([0, 60_000]);
  await clock.advance(60_000);
  expect([lags.push("u", "1"), lags.forMs("u", "1")]).toEqual([0, 120_000]);
  expect([lags.forMs("u", "2"), lags.push("u", "2")]).toEqual([0, 60_000]);
  lags.end("u");
  expect(lags.forMs("u", "2")).toBe(0);
});
