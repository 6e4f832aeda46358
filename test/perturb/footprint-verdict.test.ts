/** The oracle of the footprint stories finds each thing that it is there for, and nothing in what is right. */
import { nodes, type Pod, pods } from "@berth/kube";
import { nodeFootprints } from "@berth/placement";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { FootprintHistory as Told } from "./footprint-history.ts";
import {
  FOREIGN_FINALIZER,
  footprintSpec,
  HOLD,
  needingPod,
  ORPHAN,
  poolObject,
  setObject,
  unsettled,
  wantedOn,
} from "./footprint-oracle.ts";
import { document } from "./scene.ts";

/** A footprint, a node, and a pod of group a that is there before Berth starts. */
const told = (): Told => new Told().footprint().pod("a1", "a").node(undefined, "story");

/** Two steps on, so that nothing that was before can be taken for late. */
function later(before: Told): Told {
  const one = before.next("one").pod("x", "x").pod("x", "x", "DELETED");
  return one.next("two").pod("y", "y").pod("y", "y", "DELETED");
}

const NOW = "2026-01-01T00:00:00Z";
const FOREIGN = [FOREIGN_FINALIZER];
const HELD = [FOREIGN_FINALIZER, HOLD];
const RIGHT = "nothing is wrong";
type Case = readonly [string, Told, string];

describe("a mark", () => {
  const without = (of: Told, name: string): Told =>
    of.next(`${name}-goes`).pod(name, name.slice(0, 1), "DELETED");
  const last = (): Told => without(told().node(["a"]), "a1").node(undefined);
  const left = (): Told =>
    without(without(later(told().pod("a2", "a").pod("b1", "b").node(["a", "b"])), "a1"), "b1");
  const unneeded = new Told().footprint().node(undefined, "story").node([]);
  const unasked = new Told().pod("a1", "a").node(undefined, "story").node(["a"]);

  it.each<Case>([
    ["is right while a pod needs it, and goes with the last one", last(), RIGHT],
    ["stays on a node that needs it", later(told().node(["a"])).node(undefined), "though pods need it"],
    ["goes for a group with its last pod", left().node(["a"]), RIGHT],
    ["stays for a group with another pod", left().node(undefined), "though pods need it"],
    ["must not be put on for a group that no pod is of", told().node(["a", "b"]), "claim.b= for no pod"],
    ["must not be put on without a pod", unneeded, "for no pod"],
    ["must not be put on without a footprint", unasked, "n1"],
    ["needs a footprint", new Told().node(["a"], "story", null).node(undefined), "somebody else's"],
    ["has to be recorded, and nothing else", told().node(["a"], "controller", []), "records"],
    ["must not come and go while nobody does anything", last().node(["a"]), "flapped"],
  ])("%s", (_, { problems }, expected) => expect(problems.join() || RIGHT).toContain(expected));
});

describe("an owner", () => {
  const alive = (): Told => new Told().footprint().pool(FOREIGN, "story").pod("p1", "pool-uid").pool(HELD);
  const deleted = (): Told => later(alive().next("go").pool(HELD, "story", NOW));
  const over = deleted().next("pod-goes").pod("p1", "pool-uid", "DELETED").pool(FOREIGN, "controller", NOW);

  it.each<Case>([
    ["is held while it lives, and let go once its pods are gone", over, RIGHT],
    ["is not let go while it has pods", deleted().pool(FOREIGN, "controller", NOW), "though it has pods"],
    ["must not be let go while it lives", new Told().pool(HELD, "story").pool(FOREIGN), "though it lives"],
    ["is held by others too", new Told().pool(FOREIGN, "story").pool([HOLD]), "foreign things"],
    ["must not be written for nothing", new Told().pool(HELD, "story").pool(HELD), "for nothing"],
  ])("%s", (_, { problems }, expected) => expect(problems.join() || RIGHT).toContain(expected));
});

describe("what an owner owns", () => {
  const alive = (): Told => new Told().footprint().pool(HELD, "story").set("s1");
  const owned = (...more: readonly string[]): Told =>
    later(
      alive()
        .next("go")
        .pool([...HELD, ...more], "story", NOW),
    );
  const removed = (of: Told): Told => of.set("s1", "controller", "DELETED");

  it.each<Case>([
    ["is removed with it", removed(owned()), RIGHT],
    ["keeps it until then", owned().pool(FOREIGN, "controller", NOW), "though it has pods"],
    ["must not be removed while it lives", removed(alive()), "no pool of it"],
    ["must not be removed when it is to be left", removed(owned(ORPHAN)), "no pool of it"],
  ])("%s", (_, { problems }, expected) => expect(problems.join() || RIGHT).toContain(expected));

  it("keeps it no longer than it may, and not before that", () => {
    const overdue = owned().next("late").pool(FOREIGN, "controller", NOW);
    expect(overdue.problemsLate("late")).toEqual([]);
    expect(overdue.problemsLate("go").join()).toContain("though it has pods");
  });

  it("is told of in the end where it is left", () => {
    const pool = {
      ...poolObject("pool"),
      metadata: { uid: "pool-uid", finalizers: HELD, deletionTimestamp: NOW },
    };
    const view = { nodes: [], pods: [], footprints: [document(nodeFootprints, "agent", {})], pools: [pool] };
    expect(unsettled({ ...view, sets: [setObject("s1", pool)] }).join()).toContain("s1 is left");
    expect(unsettled({ ...view, sets: [] }, () => true).join()).toContain("is held");
  });
});

it("what is not Berth's must not be touched on a node, nor may anything be made or removed", () => {
  const note = aNode("n1").annotated({ "example.com/note": "n1" }).build();
  const bare = new Told().note(nodes, { name: "n1", object: note, by: "story" }).node(undefined);
  expect(bare.problems.join()).toContain("foreign things");
  expect(told().note(pods, { name: "a1", object: {}, by: "controller", gone: "DELETED" }).problems).toEqual([
    "a1 was DELETED by the controller (start)",
  ]);
  const made = new Told().note(nodes, { name: "n1", object: note, by: "controller" });
  expect(made.problems).toEqual(["n1 was ADDED by the controller (start)"]);
});

describe("what stands in the end", () => {
  const node = aNode("n1").build();
  const view = (...all: readonly Pod[]) => ({
    nodes: [node],
    pods: all,
    footprints: [document(nodeFootprints, "agent", footprintSpec(false))],
    pools: [],
    sets: [],
  });
  const pod = needingPod("p", { node: "n1", group: "a" });

  it("is nothing for finished pods, other nodes, and names that no claim can have", () => {
    const others = [
      { ...pod, status: { phase: "Succeeded" } },
      needingPod("p", { node: "n2", group: "a" }),
      needingPod("p", { node: "n1", group: "x".repeat(63) }),
      needingPod("p", { node: "n1", group: "" }),
    ];
    expect(wantedOn(node, view(...others)).size).toBe(0);
    expect(
      wantedOn(node, view({ ...pod, metadata: { ...pod.metadata, deletionTimestamp: "now" } })).size,
    ).toBe(2);
  });

  it("is told where it is missing", () => {
    expect(unsettled(view(pod)).join()).toContain("n1 has other marks");
  });
});
