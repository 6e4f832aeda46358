/** Random lives of pods, of facts, policies and namespaces: see `testing/pod-lives.ts` for what must hold of them. */

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkSettled, MAX_HOLD_MS, step, World } from "./testing/pod-lives.ts";

describe("whatever happens to pods, images and policies", () => {
  it("gates go by a verdict or by time, affinity narrows only, and what is decided is carried out once", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        const world = new World();
        for (const it of steps) await world.act(it);
        await world.settle();
        await world.clock.advance(MAX_HOLD_MS);
        await world.settle();
        checkSettled(world);
        const { requests } = world.server;
        await world.settle();
        expect(world.server.requests, "at rest nothing is sent").toBe(requests);
      }),
      { numRuns: 400 },
    );
  });
});
