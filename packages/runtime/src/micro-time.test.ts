import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromTime, toMicroTime, toTime } from "./micro-time.ts";

describe("micro time", () => {
  it("always has six fractional digits", () => {
    expect(toMicroTime(Date.UTC(2026, 10, 21, 1, 2, 3))).toBe("2026-11-21T01:02:03.000000Z");
    expect(toMicroTime(Date.UTC(2026, 10, 21, 1, 2, 3, 45) + 0.5)).toBe("2026-11-21T01:02:03.045500Z");
  });

  it("rounds whole seconds down", () => {
    expect(toTime(Date.UTC(2026, 10, 21, 1, 2, 3, 999))).toBe("2026-11-21T01:02:03Z");
  });

  it("comes back as it went, to the millisecond", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_102_444_800_000 }), (epochMs) => {
        expect(toMicroTime(epochMs)).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
        expect(fromTime(toMicroTime(epochMs))).toBe(epochMs);
        expect(fromTime(toTime(epochMs))).toBe(Math.floor(epochMs / 1000) * 1000);
      }),
    );
  });

  it("reads offsets and says undefined for what is no time", () => {
    expect(fromTime("2026-01-01T01:00:00+01:00")).toBe(Date.UTC(2026, 0, 1));
    for (const text of [undefined, "", "yesterday", "2026-01-01", "2026-13-01T00:00:00Z"]) {
      expect(fromTime(text)).toBeUndefined();
    }
  });
});
