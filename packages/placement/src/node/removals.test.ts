import { createVirtualClock } from "@berth/runtime";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BREAKER_WINDOW_MS, CONFIRMED_MS, RemovalBreakers, removalLimit } from "./breaker.ts";
import type { BoundCapability, RemovalPolicy } from "./capability.ts";
import { labelId, ownValue } from "./mark.ts";
import { type OneNode, oneNode } from "./testing/server.ts";
import { policyOf, wish } from "./testing/stub.ts";
import { makeNode } from "./testing/world.ts";
import { NodeWriter } from "./writer.ts";

const log = { error() {}, warn() {}, info() {}, debug() {}, with: () => log };
const RULE = "made-up/rule";

/** Wants `out` on nodes that carry `in`. */
function careful(removal: () => RemovalPolicy | undefined): BoundCapability {
  return {
    name: "a",
    inputs: () => [],
    contribute: ({ node }) => {
      const policy = removal();
      const holds = ownValue(node.metadata?.labels, "in") !== undefined;
      return {
        capability: "a",
        policy: policyOf({ ...(policy && { removals: new Map([[RULE, policy]]) }) }),
        decision: {
          marks: holds ? [wish(labelId("out"), "1")] : [],
          keep: new Map(),
          findings: [],
        },
      };
    },
  };
}

const isLabelled = ({ node }: OneNode): boolean => node.metadata?.labels?.["out"] === "1";

/** Nodes that carry `in` and, after the first look, `out`; with one writer for all. */
async function fleet(count: number, removal: () => RemovalPolicy | undefined) {
  const clock = createVirtualClock();
  const worlds = Array.from({ length: count }, (_, at) =>
    oneNode(makeNode({ name: `n${at}`, labels: { in: "1" } })),
  );
  const byName = new Map(worlds.map((world) => [world.key.name, world]));
  const changes: string[] = [];
  const breakers = new RemovalBreakers((rule, frozen) =>
    changes.push(`${rule} ${frozen ? "frozen" : "free"}`),
  );
  const writer = new NodeWriter({
    nodes: { get: (key) => byName.get(key.name)?.cache.get(key) },
    api: {
      patch: (name, patch, signal) => at(name).api.patch(name, patch, signal),
      read: (name, signal) => at(name).api.read(name, signal),
    },
    capabilities: [careful(removal)],
    installation: "berth",
    clock,
    breakers,
  });
  function at(name: string): OneNode {
    const world = byName.get(name);
    if (world === undefined) throw new Error(`no node ${name}`);
    return world;
  }
  const look = async (world: OneNode) => {
    world.observe();
    const result = await writer.reconcile(world.key, { signal: new AbortController().signal, log });
    world.observe();
    return result;
  };
  const lookAtAll = async () => {
    for (const world of worlds) await look(world);
  };
  const labelled = () => worlds.filter(isLabelled).length;
  await lookAtAll();
  expect(labelled()).toBe(count);
  await lookAtAll();
  return { worlds, clock, breakers, changes, look, lookAtAll, labelled };
}

const lose = (worlds: readonly OneNode[]): void => {
  for (const world of worlds) world.edit({ labels: { in: null } });
};
const regain = (worlds: readonly OneNode[]): void => {
  for (const world of worlds) world.edit({ labels: { in: "1" } });
};

describe("the delay of removals", () => {
  it("keeps the mark that long, says so, and comes back in time", async () => {
    const { worlds, clock, look, labelled } = await fleet(1, () => ({ delayMs: 60_000 }));
    const [world] = worlds;
    if (world === undefined) throw new Error("no node");
    lose(worlds);
    expect(await look(world)).toEqual({ recheckAfterMs: 60_000 });
    await clock.advance(59_999);
    expect(await look(world)).toEqual({ recheckAfterMs: 1 });
    expect(labelled()).toBe(1);
    await clock.advance(1);
    await look(world);
    expect(labelled()).toBe(0);
  });

  it("begins anew when the input came back meanwhile", async () => {
    const { worlds, clock, lookAtAll, labelled } = await fleet(1, () => ({ delayMs: 60_000 }));
    lose(worlds);
    await lookAtAll();
    await clock.advance(59_000);
    regain(worlds);
    await lookAtAll();
    lose(worlds);
    await clock.advance(59_000);
    await lookAtAll();
    await clock.advance(59_000);
    await lookAtAll();
    expect(labelled()).toBe(1);
    await clock.advance(1_000);
    await lookAtAll();
    expect(labelled()).toBe(0);
  });

  it("does not apply to a rule without one", async () => {
    const { worlds, lookAtAll, labelled } = await fleet(3, () => undefined);
    lose(worlds);
    await lookAtAll();
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
    const { worlds, clock, lookAtAll, labelled, changes } = await fleet(20, () => policy(5));
    lose(worlds.slice(0, 5));
    await lookAtAll();
    await clock.advance(1000);
    await lookAtAll();
    expect(labelled()).toBe(15);
    expect(changes).toEqual([]);
  });

  it("lets none go when there is one too many, whatever the order, until inputs are back", async () => {
    const { worlds, clock, lookAtAll, labelled, changes, breakers } = await fleet(20, () => policy(5));
    lose(worlds.slice(3, 9));
    await lookAtAll();
    await clock.advance(1000);
    await lookAtAll();
    expect(labelled()).toBe(20);
    expect(breakers.frozen).toEqual([{ rule: RULE, losing: 6, carrying: 20 }]);
    regain(worlds.slice(8, 9));
    await lookAtAll();
    await lookAtAll();
    expect(labelled()).toBe(15);
    expect(changes).toEqual([`${RULE} frozen`, `${RULE} free`]);
  });

  it("counts those that went within the last minute", async () => {
    const { worlds, clock, lookAtAll, labelled } = await fleet(20, () => policy(5));
    lose(worlds.slice(0, 5));
    await lookAtAll();
    await clock.advance(1000);
    await lookAtAll();
    lose(worlds.slice(5, 8));
    await lookAtAll();
    await clock.advance(1000);
    await lookAtAll();
    expect(labelled()).toBe(15);
    await clock.advance(BREAKER_WINDOW_MS);
    await lookAtAll();
    expect(labelled()).toBe(12);
  });

  it("lets them go while a confirmation holds", async () => {
    let confirmed: Pick<RemovalPolicy, "confirmedAt"> = {};
    const { worlds, clock, lookAtAll, labelled } = await fleet(20, () => ({ ...policy(5), ...confirmed }));
    lose(worlds);
    await lookAtAll();
    await clock.advance(1000);
    await lookAtAll();
    expect(labelled()).toBe(20);
    confirmed = { confirmedAt: clock.now() - CONFIRMED_MS };
    await lookAtAll();
    confirmed = { confirmedAt: clock.now() + 1 };
    await lookAtAll();
    expect(labelled()).toBe(20);
    confirmed = { confirmedAt: clock.now() };
    await lookAtAll();
    expect(labelled()).toBe(0);
  });

  it("forgets nodes that are gone", async () => {
    const { worlds, clock, lookAtAll, breakers } = await fleet(10, () => policy(2));
    lose(worlds.slice(0, 3));
    await lookAtAll();
    await clock.advance(1000);
    await lookAtAll();
    expect(breakers.frozen).toHaveLength(1);
    worlds[0]?.remove();
    for (const world of worlds.slice(1)) world.observe();
    await lookAtAll();
    expect(breakers.frozen).toEqual([]);
    await lookAtAll();
    expect(worlds.slice(1).filter(({ node }) => node.metadata?.labels?.["out"] === "1")).toHaveLength(7);
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
