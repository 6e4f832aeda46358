import { ApiError, type ApiFailure } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ABSENT_CAP_MS, ReconnectWait } from "./reconnect.ts";

const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const failed = (failure: ApiFailure, retryAfterMs?: number): ApiError =>
  new ApiError(
    failure,
    { verb: "watch", resource: "pods" },
    { message: "failed", ...(retryAfterMs !== undefined && { retryAfterMs }) },
  );
const absent = failed({ kind: "unreachable", noConnection: true });
const broken = failed({ kind: "unreachable" });
const starting = failed({ kind: "serverError", status: 503 });

describe("the wait before the next connection", () => {
  it("A-B9 is three seconds at most while no connection comes about, and short for the first answer after it", () => {
    fc.assert(
      fc.property(fc.array(unit, { minLength: 1, maxLength: 40 }), unit, (randoms, last) => {
        const values = [...randoms, last];
        const wait = new ReconnectWait(() => values.shift() ?? 0);
        for (const _ of randoms) {
          const waitMs = wait.next(absent);
          expect(waitMs).toBeGreaterThanOrEqual(200);
          expect(waitMs).toBeLessThanOrEqual(ABSENT_CAP_MS);
        }
        expect(wait.next(starting)).toBeLessThanOrEqual(600);
      }),
    );
  });

  it.each([
    ["answers that it cannot", starting],
    ["breaks connections off", broken],
  ])("grows to half a minute while a server %s, though it is gone now and then", (_what, failure) => {
    const wait = new ReconnectWait(() => 0.99);
    const waits = Array.from({ length: 20 }, () => {
      wait.next(absent);
      return wait.next(failure);
    });
    expect(waits.toSorted((a, b) => a - b)).toEqual(waits);
    expect(waits.at(-1)).toBe(30_000);
    expect(wait.next(absent)).toBe(ABSENT_CAP_MS);
    wait.reset();
    expect(wait.next(absent)).toBeLessThan(600);
    expect(wait.next(undefined)).toBeLessThan(600);
  });

  it("is what the server asks for when that is longer", () => {
    const wait = new ReconnectWait(() => 0);
    expect(wait.next(failed({ kind: "tooManyRequests", causes: [] }, 7000))).toBe(7000);
    expect(wait.next(failed({ kind: "tooManyRequests", causes: [] }, 1))).toBe(200);
  });
});
