import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { NEW_YEAR } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import { GateClocks, type Look } from "./clocks.ts";
import type { GateState } from "./state.ts";

const node = makeNode();
const LOOK: Look = {
  rule: "config/g",
  held: true,
  heldSince: undefined,
  evidence: undefined,
  unknown: false,
};

/** One process, and both of its clocks. */
function clocked(trusting = false) {
  const at = { ms: 1_000, wall: NEW_YEAR };
  const clocks = new GateClocks({ monotonic: () => at.ms, trusting });
  const look = (more: Partial<Look> = {}) => clocks.look(node, { ...LOOK, ...more }, at.wall);
  const pass = (ms: number): void => {
    at.ms += ms;
    at.wall += ms;
  };
  return { at, clocks, look, pass };
}

describe("how long a node is held", () => {
  it("goes on from what the node says at the first look, and is nothing to the wall clock from then on", () => {
    const { at, look, pass } = clocked();
    const since = NEW_YEAR - 60_000;
    expect(look({ heldSince: since }).heldForMs).toBe(60_000);
    pass(5_000);
    at.wall += 3_600_000;
    expect(look({ heldSince: since }).heldForMs).toBe(65_000);
    at.wall -= 7_200_000;
    expect(look({ heldSince: since }).heldForMs).toBe(65_000);
  });

  it("begins at once where the node says nothing, and goes on when it is written down", () => {
    const { look, pass } = clocked();
    expect(look().heldForMs).toBe(0);
    pass(3_000);
    expect(look().heldForMs).toBe(3_000);
    expect(look({ heldSince: NEW_YEAR - 500 }).heldForMs).toBe(3_000);
  });

  it("begins when this process saw it begin, though the wall clock jumps meanwhile", () => {
    const { at, look, pass } = clocked();
    look({ held: false });
    const heldSince = at.wall;
    at.wall += 3_600_000;
    pass(10);
    expect(look({ heldSince }).heldForMs).toBe(0);
  });

  it("begins anew with another hold, also one that nobody saw begin", () => {
    const { look, pass } = clocked();
    look({ heldSince: NEW_YEAR - 60_000 });
    pass(10_000);
    expect(look({ heldSince: NEW_YEAR + 4_000 }).heldForMs).toBe(6_000);
    look({ held: false });
    pass(1_000);
    expect(look({ heldSince: NEW_YEAR + 4_000 }).heldForMs).toBe(0);
  });

  it("is never less than nothing, whatever the node says", () => {
    expect(clocked().look({ heldSince: 8.64e15 }).heldForMs).toBe(0);
  });
});

describe("how long signals hold", () => {
  it("counts from the first look, by the clock that cannot jump, and anew when they go by something else", () => {
    const { at, look, pass } = clocked();
    expect(look({ evidence: "a" }).stableForMs).toBe(0);
    pass(4_000);
    at.wall += 3_600_000;
    expect(look({ evidence: "a" }).stableForMs).toBe(4_000);
    expect(look({ evidence: "b" }).stableForMs).toBe(0);
    pass(1_000);
    expect(look().stableForMs).toBe(0);
    expect(look({ evidence: "b" }).stableForMs).toBe(0);
  });

  it("takes the times of the objects on trust only for a command that looks once", () => {
    const more = { evidence: "a", holdsSince: NEW_YEAR - 30_000 };
    expect(clocked().look(more).stableForMs).toBe(0);
    expect(clocked(true).look(more).stableForMs).toBe(30_000);
    expect(clocked(true).look({ evidence: "a" }).stableForMs).toBe(0);
  });

  it("counts what cannot be read from when it could not", () => {
    const { at, look, pass } = clocked();
    look({ unknown: true });
    pass(7_000);
    at.wall -= 3_600_000;
    expect(look({ unknown: true }).unknownForMs).toBe(7_000);
    expect(look().unknownForMs).toBe(0);
  });
});

describe("the time of a change", () => {
  it("stays while the same change is decided again, and is another when things changed between", () => {
    const { at, clocks, look, pass } = clocked();
    const stamp = () => clocks.stamp(node, "config/g", "released x", at.wall);
    look({ evidence: "a" });
    expect(stamp()).toBe(NEW_YEAR);
    pass(60_000);
    look({ evidence: "a" });
    expect(stamp()).toBe(NEW_YEAR);
    look();
    look({ evidence: "a" });
    expect(stamp()).toBe(NEW_YEAR + 60_000);
    pass(60_000);
    look({ held: false, evidence: "a" });
    look({ evidence: "a" });
    expect(stamp()).toBe(NEW_YEAR + 120_000);
  });
});

describe("what is remembered", () => {
  const beat = (bootID: string, heartbeat?: string): Node => ({
    ...node,
    status: {
      nodeInfo: { bootID } as NonNullable<NonNullable<Node["status"]>["nodeInfo"]>,
      conditions: [
        { type: "DiskPressure", status: "False", lastHeartbeatTime: "2026-01-01T00:00:10Z" },
        { type: "Ready", status: "True", ...(heartbeat !== undefined && { lastHeartbeatTime: heartbeat }) },
      ],
    },
  });
  const state: GateState = { state: "held", why: "Gated", at: NEW_YEAR - 60_000, boot: "one" };

  it("a boot that was seen to begin counts from the latest heartbeat by then, less what may have been missed", () => {
    const { clocks } = clocked();
    expect(clocks.boot(beat("one"), state, NEW_YEAR)).toEqual({ id: "one" });
    const two = beat("two", "2026-01-01T00:00:20Z");
    const since = NEW_YEAR + 20_000 - 30_000;
    expect(clocks.boot(two, state, NEW_YEAR)).toEqual({ id: "two", since });
    expect(clocks.boot(beat("two", "2026-01-01T09:00:00Z"), state, NEW_YEAR)).toEqual({ id: "two", since });
    expect(clocks.bootOf(two, { ...state, boot: "two", bootAt: NEW_YEAR })).toEqual({
      id: "two",
      since: NEW_YEAR,
    });
  });

  it("one that nobody saw begin counts from when the boot before it was written down", () => {
    const { clocks } = clocked();
    expect(clocks.boot(beat("two"), state, NEW_YEAR)).toEqual({ id: "two", since: NEW_YEAR - 60_000 });
    expect(clocks.boot(beat("two"), undefined, NEW_YEAR)).toEqual({ id: "two" });
  });

  it("a node that does not say its boot for a moment has not been rebooted", () => {
    const { clocks } = clocked();
    clocks.boot(beat("one"), state, NEW_YEAR);
    expect(clocks.boot(beat(""), state, NEW_YEAR)).toEqual({ id: "" });
    expect(clocks.boot(beat("one"), state, NEW_YEAR)).toEqual({ id: "one" });
  });

  it("an id is cut to what fits into the state, and is no reboot then", () => {
    const { clocks } = clocked();
    const { id } = clocks.boot(beat("x".repeat(100_000)), undefined, NEW_YEAR);
    expect(id).toHaveLength(128);
    expect(clocks.boot(beat("x".repeat(100_000)), { ...state, boot: id }, NEW_YEAR)).toEqual({ id });
  });

  it("is one boot for each node, gates while they are in force and concern it, and nothing of a node that is gone", () => {
    const { clocks, look, pass } = clocked();
    for (const id of ["one", "two", "three"]) clocks.boot(beat(id), state, NEW_YEAR);
    expect(clocks.remembered).toBe(1);
    look({ heldSince: NEW_YEAR - 60_000 });
    clocks.retain(new Set(["config/g"]), new Set());
    look({ heldSince: NEW_YEAR - 60_000, evidence: "a" });
    clocks.retain(new Set(), new Set(["config/g"]));
    pass(1_000);
    expect(look({ heldSince: NEW_YEAR - 60_000, evidence: "a" })).toMatchObject({
      heldForMs: 61_000,
      stableForMs: 0,
    });
    clocks.rest(node, "config/g");
    expect(look().heldForMs).toBe(0);
    pass(1_000);
    clocks.retain(new Set(), new Set());
    expect(look().heldForMs).toBe(0);
    clocks.forget("n1");
    expect(clocks.remembered).toBe(0);
  });

  it("is nothing of an earlier node of that name", () => {
    const { clocks, look, pass, at } = clocked();
    look();
    clocks.boot(beat("one"), undefined, at.wall);
    pass(60_000);
    const another = { ...beat("two"), metadata: { ...node.metadata, uid: "another" } };
    expect(clocks.look(another, LOOK, at.wall).heldForMs).toBe(0);
    expect(clocks.boot(another, undefined, at.wall)).toEqual({ id: "two" });
  });

  it("the age of a node, by the clock that cannot jump", () => {
    const { clocks, at, pass } = clocked();
    const made = { ...node, metadata: { ...node.metadata, creationTimestamp: "2025-12-31T23:59:00Z" } };
    expect(clocks.age(made, at.wall)).toBe(60_000);
    pass(1_000);
    at.wall += 3_600_000;
    expect(clocks.age(made, at.wall)).toBe(61_000);
    expect(clocked().clocks.age(node, NEW_YEAR)).toBe(0);
  });
});
