import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NodeCounts, Pass } from "./pass.ts";
import { makeNode } from "./testing/world.ts";

function passOver(...names: readonly string[]) {
  const nodes = new Map(names.map((name) => [name, makeNode({ name })]));
  const state = { synced: false, done: 0 };
  const outcome = { contributions: [], owned: new Map(), changes: [], withheld: new Map() };
  const heard: string[] = [];
  const hear =
    (what: string) =>
    (name: string): void =>
      void heard.push(`${what} ${name}`);
  const tally = {
    decided: hear("decided"),
    written: hear("written"),
    gone: hear("gone"),
    counts: (rule: string) => rule,
  };
  const counts = new NodeCounts({
    nodes: {
      get synced() {
        return state.synced;
      },
      list: () => nodes.values(),
    },
    tally,
    onDone: () => (state.done += 1),
  });
  const pass = {
    check: () => counts.check(),
    decided: (name: string) => counts.decided(name, outcome),
    written: (name: string) => counts.written(name, [], []),
    gone: (name: string) => counts.gone(name),
    /** There are counts only then. */
    get done() {
      return counts.of("r") === "r";
    },
  };
  return { pass, nodes, state, heard };
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

  it("passes on what its tally counts: decisions, writes and deletions", () => {
    const { pass, heard } = passOver("a");
    pass.decided("a");
    pass.written("a");
    pass.gone("a");
    expect(heard).toEqual(["decided a", "written a", "gone a"]);
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

describe("a pass over any names", () => {
  it("is done when each that is there was looked at since the policies changed", () => {
    const there = new Set(["a", "b"]);
    let read = false;
    let done = 0;
    const pass = new Pass({ all: () => (read ? there : undefined), onDone: () => (done += 1) });
    pass.decided("a");
    pass.decided("b");
    expect(pass.done).toBe(false);
    read = true;
    pass.check();
    expect([pass.done, done]).toEqual([true, 1]);
    pass.decided("a");
    pass.begin();
    pass.decided("b");
    expect([pass.done, done]).toEqual([false, 1]);
    there.add("c");
    pass.decided("a");
    expect(pass.done).toBe(false);
    there.delete("c");
    pass.gone("c");
    expect([pass.done, done]).toEqual([true, 2]);
  });

  it("is done in any order of events, once nothing is left", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.boolean())),
        fc.boolean(),
        (events, again) => {
          const there = new Set(events.map(([workload]) => workload));
          const looked = new Set<string>();
          const pass = new Pass({ all: () => there, onDone: () => {} });
          if (again) {
            pass.check();
            pass.begin();
            pass.check();
          }
          for (const [workload, isDecided] of events) {
            if (pass.done) break;
            if (isDecided) {
              looked.add(workload);
              pass.decided(workload);
            } else {
              there.delete(workload);
              looked.delete(workload);
              pass.gone(workload);
            }
            expect(pass.done).toBe(there.isSubsetOf(looked));
          }
        },
      ),
    );
  });
});
