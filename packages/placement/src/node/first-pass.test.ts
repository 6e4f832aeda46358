import { describe, expect, it } from "vitest";
import { FirstPass } from "./first-pass.ts";
import { makeNode } from "./testing/world.ts";

function passOver(...names: readonly string[]) {
  const nodes = new Map(names.map((name) => [name, makeNode({ name })]));
  const state = { synced: false, done: 0 };
  const pass = new FirstPass({
    nodes: {
      get synced() {
        return state.synced;
      },
      get size() {
        return nodes.size;
      },
      list: () => nodes.values(),
    },
    onDone: () => (state.done += 1),
  });
  return { pass, nodes, state };
}

describe("the first pass over the nodes", () => {
  it("is done when the last node was looked at, once", () => {
    const { pass, state } = passOver("a", "b");
    state.synced = true;
    pass.check();
    pass.decided("a");
    pass.decided("a");
    expect(pass.done).toBe(false);
    pass.decided("b");
    pass.decided("b");
    expect([pass.done, state.done]).toEqual([true, 1]);
  });

  it("waits until the nodes are known, when all that came were looked at before", () => {
    const { pass, nodes, state } = passOver("a");
    pass.decided("a");
    nodes.set("b", makeNode({ name: "b" }));
    state.synced = true;
    pass.check();
    expect(pass.done).toBe(false);
    pass.decided("b");
    expect(pass.done).toBe(true);
  });

  it("does not wait for a node that went, nor take one for another", () => {
    const { pass, nodes, state } = passOver("a", "b");
    state.synced = true;
    pass.decided("a");
    nodes.delete("a");
    pass.gone("a");
    expect(pass.done).toBe(false);
    nodes.delete("b");
    pass.gone("b");
    expect(pass.done).toBe(true);
  });
});
