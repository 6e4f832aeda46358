import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BREAKER_WINDOW_MS, CONFIRMED_MS, removalLimit } from "./breaker.ts";
import type { RemovalPolicy } from "./capability.ts";
import { fleet, isLabelled, RULE } from "./testing/fleet.ts";
import { type OneNode } from "./testing/server.ts";

describe("the delay of removals", () => {
  it("keeps the mark that long, says so, and comes back in time", async () => {
    const { worlds, clock, look, labelled } = await fleet(1, () => ({ delayMs: 60_000 }));
    const [world] = worlds as [OneNode];
    expect(labelled()).toBe(1);
    world.edit({ labels: { in: null } });
    expect(await look(world)).toEqual({ recheckAfterMs: 60_000 });
    await clock.advance(59_999);
    expect(await look(world)).toEqual({ recheckAfterMs: 1 });
    expect(labelled()).toBe(1);
    await clock.advance(1);
    await look(world);
    expect(labelled()).toBe(0);
  });

  it("begins anew when the input came back meanwhile", async () => {
    const { worlds, clock, lookAtAll, lose, regain, labelled } = await fleet(1, () => ({ delayMs: 60_000 }));
    await lose(worlds, 59_000);
    regain(worlds);
    await lookAtAll();
    await lose(worlds, 59_000);
    await lose([], 999);
    expect(labelled()).toBe(1);
    await clock.advance(1);
    await lookAtAll();
    expect(labelled()).toBe(0);
  });

  it("does not apply to a rule without one", async () => {
    const { worlds, lose, labelled } = await fleet(3, () => undefined);
    await lose(worlds, 0);
    expect(labelled()).toBe(0);
  });
});

describe("the breaker", () => {
  const policy = (nodes: number, percent = 10): RemovalPolicy => ({
    delayMs: 1000,
    breaker: { percent, nodes },
  });

  it.each([
    [{ percent: 10, nodes: 10 }, 50, 10],
    [{ percent: 10, nodes: 10 }, 5000, 500],
    [{ percent: 0, nodes: 0 }, 5000, 0],
    [{ percent: 33, nodes: 1 }, 10, 3],
  ])("allows %j of %i nodes to be %i", (breaker, carrying, limit) => {
    expect(removalLimit(breaker, carrying)).toBe(limit);
  });

  it("lets as many go as it may", async () => {
    const { worlds, lose, labelled, changes } = await fleet(20, () => policy(5));
    await lose(worlds.slice(0, 5), 1000);
    expect(labelled()).toBe(15);
    expect(changes).toEqual([]);
  });

  it("lets none go when there is one too many, whatever the order, until inputs are back", async () => {
    const { worlds, lookAtAll, lose, regain, labelled, changes, breakers } = await fleet(20, () => policy(5));
    await lose(worlds.slice(3, 9), 1000);
    expect(labelled()).toBe(20);
    expect(breakers.frozen).toEqual([{ rule: RULE, losing: 6, carrying: 20 }]);
    regain(worlds.slice(8, 9));
    await lookAtAll();
    await lookAtAll();
    expect(labelled()).toBe(15);
    expect(changes).toEqual([`${RULE} frozen`, `${RULE} free`]);
  });

  it("counts those that went within the last minute", async () => {
    const { worlds, lose, labelled } = await fleet(20, () => policy(5));
    await lose(worlds.slice(0, 5), 1000);
    await lose(worlds.slice(5, 8), 1000);
    expect(labelled()).toBe(15);
    await lose([], BREAKER_WINDOW_MS);
    expect(labelled()).toBe(12);
  });

  it("lets them go while a confirmation holds", async () => {
    let confirmed: Pick<RemovalPolicy, "confirmedAt"> = {};
    const asked = () => ({ ...policy(5), ...confirmed });
    const { worlds, clock, lookAtAll, lose, labelled } = await fleet(20, asked);
    await lose(worlds, 1000);
    expect(labelled()).toBe(20);
    for (const [offset, left] of [
      [-CONFIRMED_MS, 20],
      [1, 20],
      [0, 0],
    ] as const) {
      confirmed = { confirmedAt: clock.now() + offset };
      await lookAtAll();
      expect(labelled()).toBe(left);
    }
  });

  it("forgets nodes that are gone", async () => {
    const { worlds, lookAtAll, lose, breakers } = await fleet(10, () => policy(2));
    await lose(worlds.slice(0, 3), 1000);
    expect(breakers.frozen).toHaveLength(1);
    worlds[0]?.remove();
    await lookAtAll();
    expect(breakers.frozen).toEqual([]);
    await lookAtAll();
    expect(worlds.slice(1).filter(isLabelled)).toHaveLength(7);
  });

  it("never lets more go within a minute than it may, in any history", async () => {
    const step = fc.record({
      at: fc.integer({ min: 0, max: 11 }),
      do: fc.constantFrom("lose", "regain", "look"),
      waitMs: fc.constantFrom(0, 0, 400, 1000, 20_000),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { worlds, clock, look, lookAtAll } = await fleet(12, () => policy(3));
        const before = new Map(worlds.map((world) => [world, isLabelled(world)]));
        // A node that loses its label again is still one node.
        const lostAt = new Map<OneNode, number>();
        const note = (): void => {
          for (const world of worlds) {
            const isNow = isLabelled(world);
            if (before.get(world) === true && !isNow) lostAt.set(world, clock.monotonic());
            before.set(world, isNow);
          }
          const recent = [...lostAt.values()].filter((at) => clock.monotonic() - at < BREAKER_WINDOW_MS);
          expect(recent.length).toBeLessThanOrEqual(3);
        };
        for (const { at, do: what, waitMs } of steps) {
          const world = worlds[at];
          if (world === undefined) continue;
          if (what !== "look") world.edit({ labels: { in: what === "lose" ? null : "1" } });
          await look(world);
          note();
          await clock.advance(waitMs);
          await lookAtAll();
          note();
        }
      }),
      { numRuns: 60 },
    );
  });
});
