import { expect, it } from "vitest";
import { parseRetryAfter } from "./refusal.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");

it.each<readonly [string, string | readonly string[] | undefined, number | undefined]>([
  ["seconds", "30", 30_000],
  ["a date", "Sun, 01 Mar 2026 12:01:00 GMT", 60_000],
  ["a date that has passed as nothing", "Sun, 01 Mar 2026 11:00:00 GMT", undefined],
  ["no time at all as nothing", "0", undefined],
  ["the moment as seconds since 1970, as the Hub has it", `${NOW / 1000 + 90}`, 90_000],
  ["such a moment that has passed as nothing", `${NOW / 1000 - 90}`, undefined],
  ["years, cut to 6 h", "999999999", 6 * 60 * 60 * 1000],
  ["more digits than a number has", "9".repeat(400), 6 * 60 * 60 * 1000],
  ["the first of several", ["1", "2"], 1000],
  ["nonsense", "soon", undefined],
  ["nothing", "", undefined],
  ["no header", undefined, undefined],
])("Retry-After reads %s", (_name, header, expected) => {
  expect(parseRetryAfter(header, NOW)).toBe(expected);
});
