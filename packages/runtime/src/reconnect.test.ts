import { ApiError, type ApiFailure } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ReconnectWait, UNREACHABLE_CAP_MS } from "./reconnect.ts";

const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const failed = (failure: ApiFailure, retryAfterMs?: number): ApiError =>
  new ApiError(
    failure,
    { verb: "watch", resource: "pods" },
    { message: "failed", ...(retryAfterMs !== undefined && { retryAfterMs }) },
  );
const unreachable = failed({ kind: "unreachable" });
const starting = failed({ kind: "serverError", status: 503 });

describe("the wait before the next connection", () => {
  it("A-B9 is three seconds at most while no server can be reached, and begins anew with its first answer", () => {
    fc.assert(
      fc.property(fc.array(unit, { minLength: 1, maxLength: 40 }), unit, (randoms, last) => {
        const values = [...randoms, last];
        const wait = new ReconnectWait(() => values.shift() ?? 0);
        for (const _ of randoms) {
          const waitMs = wait.next(unreachable);
          expect(waitMs).toBeGreaterThanOrEqual(200);
          expect(waitMs).toBeLessThanOrEqual(UNREACHABLE_CAP_MS);
        }
        expect(wait.next(starting)).toBeLessThan(600);
      }),
    );
  });

  it("grows to half a minute while a server answers that it cannot, and begins anew after a connection that worked", () => {
    const wait = new ReconnectWait(() => 0.99);
    const waits = Array.from({ length: 20 }, () => wait.next(starting));
    expect(waits.toSorted((a, b) => a - b)).toEqual(waits);
    expect(waits.at(-1)).toBe(30_000);
    // What goes away and comes back within a wait is no reason to ask more often.
    expect(wait.next(unreachable)).toBe(UNREACHABLE_CAP_MS);
    wait.reset();
    expect(wait.next(undefined)).toBeLessThan(600);
  });

  it("is what the server asks for when that is longer", () => {
    const wait = new ReconnectWait(() => 0);
    expect(wait.next(failed({ kind: "tooManyRequests", causes: [] }, 7000))).toBe(7000);
    expect(wait.next(failed({ kind: "tooManyRequests", causes: [] }, 1))).toBe(200);
  });
});
