import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPoolMemory, isAwaited, noteApplied } from "./memory.ts";

const applied = (nowMs: number, from?: string) => ({ text: "wish", from, to: String(nowMs), nowMs });

describe("isAwaited", () => {
  it("holds from an apply until its version or a newer one was shown, and not again after that", () => {
    const version = fc.option(fc.integer({ min: 1, max: 20 }).map(String), { nil: undefined });
    fc.assert(
      fc.property(fc.array(version, { maxLength: 20 }), (shown) => {
        const memory = createPoolMemory("u");
        expect(isAwaited(memory, undefined)).toBe(false);
        noteApplied(memory, applied(10));
        let isSeen = false;
        for (const seen of shown) {
          isSeen ||= seen !== undefined && Number(seen) >= 10;
          expect(isAwaited(memory, seen)).toBe(!isSeen);
        }
      }),
    );
  });
});
