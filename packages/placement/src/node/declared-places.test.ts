import { ApiError, type ApiFailure } from "@berth/kube";
import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { DeclaredPlaces } from "./declared-places.ts";
import type { MarkId } from "./mark.ts";
import { oneNode } from "./testing/server.ts";
import { capabilityOf, wish } from "./testing/stub.ts";
import { makeNode } from "./testing/world.ts";
import { writerOf } from "./testing/writer.ts";

const PLACE = "taint/t:NoSchedule";

/** A server with one list; processes come and go. */
function setup() {
  const clock = createVirtualClock();
  const stored = new Set<string>();
  const requests: string[] = [];
  const server = { failure: undefined as ApiFailure | undefined };
  const ask = (verb: "get" | "patch"): void => {
    requests.push(verb);
    if (server.failure !== undefined) throw new ApiError(server.failure, { verb, resource: "configmaps" });
  };
  const store = {
    load: async () => {
      ask("get");
      return [...stored];
    },
    add: async (ids: readonly MarkId[]) => {
      ask("patch");
      for (const id of ids) stored.add(id);
    },
  };
  const world = oneNode(makeNode());
  const start = (marks = true) => {
    const policy = marks ? { places: new Set<MarkId>([PLACE]) } : { rules: new Set<string>() };
    const capabilities = [capabilityOf("a", marks ? [wish(PLACE, "1")] : [], { policy })];
    const places = new DeclaredPlaces(clock, store);
    return writerOf(world, capabilities, { places, clock }).look;
  };
  const taints = () => world.node.spec?.taints?.length ?? 0;
  return { clock, stored, requests, server, world, start, taints };
}

describe("S-7 the list of declared places", () => {
  it("is stored before the first mark, once, and outlives the process", async () => {
    const { requests, server, start, taints, stored, world } = setup();
    const run = start();
    server.failure = { kind: "unreachable" };
    await expect(run()).rejects.toThrow("configmaps");
    expect(world.patches).toEqual([]);
    server.failure = undefined;
    for (let at = 0; at < 3; at++) await run();
    expect([...stored]).toEqual([PLACE]);
    expect(requests).toEqual(["get", "get", "patch"]);
    expect(taints()).toBe(1);
    await start()();
    expect(requests.slice(3)).toEqual(["get"]);
    await start(false)();
    expect(taints()).toBe(0);
  });

  it("delays marks for half a minute where it may not be kept, and then goes on in memory", async () => {
    const { clock, server, start, taints, stored } = setup();
    const run = start();
    server.failure = { kind: "forbidden" };
    await expect(run()).rejects.toThrow("configmaps");
    await clock.advance(29_000);
    await expect(run()).rejects.toThrow("configmaps");
    expect(taints()).toBe(0);
    await clock.advance(1_000);
    await run();
    expect(taints()).toBe(1);
    server.failure = undefined;
    await run();
    expect([...stored]).toEqual([PLACE]);
  });

  it("is waited for before a taint comes off that it may hold", async () => {
    const { server, start, taints } = setup();
    await start()();
    server.failure = { kind: "forbidden" };
    const next = start(false);
    expect(await next()).toEqual({ recheckAfterMs: 30_000 });
    server.failure = undefined;
    await next();
    expect(taints()).toBe(0);
  });
});
