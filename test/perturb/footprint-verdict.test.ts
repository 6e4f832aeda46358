/** The oracle of the footprint stories finds each thing that it is there for, and nothing in what is right. */
import { type Node, nodes, type Pod, pods, replicaSets } from "@berth/kube";
import { nodeFootprints, workerPools } from "@berth/placement";
import { type Author, aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import {
  AGENT_LABEL,
  CLAIM_PREFIX,
  FOREIGN_FINALIZER,
  footprintObject,
  footprintSpec,
  HOLD,
  needingPod,
  ORPHAN,
  poolObject,
  setObject,
  unsettled,
  wantedOn,
} from "./footprint-oracle.ts";
import { ToldHistory } from "./footprint-told.ts";
import { forbiddenOfFootprints } from "./footprint-verdict.ts";

class Told extends ToldHistory {
  footprint(gone?: "DELETED"): this {
    const object = footprintObject("agent", footprintSpec(false));
    return this.note(nodeFootprints, { name: "agent", object, by: "story", ...(gone && { gone }) });
  }

  pod(name: string, group: string, gone?: "DELETED"): this {
    const object = needingPod(name, { node: "n1", group });
    return this.note(pods, { name, object, by: "story", ...(gone && { gone }) });
  }

  /** @param groups `undefined`: without the label. @param record those that it says are Berth's; `null` for nothing. */
  node(
    groups: readonly string[] | undefined,
    by: Author = "controller",
    record: readonly string[] | null = groups ?? null,
  ): this {
    return this.note(nodes, { name: "n1", object: nodeWith(groups, record), by });
  }

  pool(finalizers: readonly string[], by: Author = "controller", deletionTimestamp?: string): this {
    const { metadata, ...rest } = poolObject("pool");
    const ending = deletionTimestamp === undefined ? {} : { deletionTimestamp };
    const object = { ...rest, metadata: { ...metadata, uid: "pool-uid", finalizers, ...ending } };
    return this.note(workerPools, { name: "pool", object, by });
  }

  set(name: string, by: Author = "story", gone?: "DELETED"): this {
    const { metadata, ...rest } = setObject(name, { metadata: { name: "pool", uid: "pool-uid" } });
    const object = { ...rest, metadata: { ...metadata, uid: `${name}-uid` } };
    return this.note(replicaSets, { name, object, by, ...(gone && { gone }) });
  }

  get problems(): readonly string[] {
    return this.problemsLate();
  }

  problemsLate(late?: string): readonly string[] {
    return forbiddenOfFootprints(this.entries, this.steps, late);
  }
}

function nodeWith(groups: readonly string[] | undefined, record: readonly string[] | null): Node {
  const annotations = Object.fromEntries((groups ?? []).map((group) => [`${CLAIM_PREFIX}${group}`, ""]));
  const node = aNode("n1").annotated(annotations);
  const labelled = groups === undefined ? node : node.labelled({ [AGENT_LABEL]: "true" });
  if (record === null) return labelled.build();
  const ids = [`label/${AGENT_LABEL}`, ...record.map((group) => `annotation/${CLAIM_PREFIX}${group}`)];
  const marks = Object.fromEntries(ids.map((id) => [id, { c: "footprints", r: "cluster/agent" }]));
  return labelled.annotated({ "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks }) }).build();
}

/** A footprint, a node, and a pod of group a that is there before Berth starts. */
function told(): Told {
  return new Told().footprint().pod("a1", "a").node(undefined, "story");
}

/** Two steps on, so that nothing that was before can be taken for late. */
function later(before: Told): Told {
  return before
    .next("one")
    .pod("x", "x")
    .pod("x", "x", "DELETED")
    .next("two")
    .pod("y", "y")
    .pod("y", "y", "DELETED");
}

describe("a mark", () => {
  it("is right while a pod needs it, and goes with the last one", () => {
    const right = told().node(["a"]).next("pod-goes").pod("a1", "a", "DELETED").node(undefined);
    expect(right.problems).toEqual([]);
  });

  it("must not be taken off a node that needs it", () => {
    expect(later(told().node(["a"])).node(undefined).problems).toEqual([
      expect.stringContaining("though pods need it"),
      expect.stringContaining("though pods need it"),
    ]);
  });

  it("must not go for a group while another pod of it is there", () => {
    const shared = told().pod("a2", "a").pod("b1", "b").node(["a", "b"]);
    const left = later(shared).next("three").pod("a1", "a", "DELETED").next("four").pod("b1", "b", "DELETED");
    expect(left.node(["a"]).problems).toEqual([]);
    expect(left.node(undefined).problems.length).toBeGreaterThan(0);
  });

  it("must not be put on without a pod, or for a group that no pod is of", () => {
    expect(told().node(["a", "b"]).problems.join()).toContain("claim.b= for no pod");
    expect(new Told().footprint().node(undefined, "story").node([]).problems.join()).toContain("for no pod");
    expect(new Told().pod("a1", "a").node(undefined, "story").node(["a"]).problems.length).toBeGreaterThan(0);
  });

  it("is somebody else's where there is no footprint", () => {
    const foreign = new Told().node(["a"], "story", null).node(undefined);
    expect(foreign.problems.join()).toContain("somebody else's");
  });

  it("has to be recorded, and nothing else", () => {
    expect(told().node(["a"], "controller", []).problems.join()).toContain("records");
  });

  it("must not come and go while nobody does anything", () => {
    const flaps = told().next("go").pod("a1", "a", "DELETED").node(["a"]).node(undefined).node(["a"]);
    expect(flaps.problems.join()).toContain("flapped");
  });
});

describe("an owner", () => {
  const foreign = FOREIGN_FINALIZER;
  const held = [foreign, HOLD];
  const deleted = (): Told =>
    later(
      new Told()
        .footprint()
        .pool([foreign], "story")
        .pod("p1", "pool-uid")
        .pool(held)
        .next("go")
        .pool(held, "story", "now"),
    );

  it("is held while it lives, and let go once its pods are gone", () => {
    const right = deleted()
      .next("pod-goes")
      .pod("p1", "pool-uid", "DELETED")
      .pool([foreign], "controller", "now");
    expect(right.problems).toEqual([]);
  });

  it("must not be let go while it has pods, or lives, or lose what others hold it by", () => {
    const problemsOf = (told: Told): string => told.problems.join();
    expect(problemsOf(deleted().pool([foreign], "controller", "now"))).toContain("though it has pods");
    expect(problemsOf(new Told().pool(held, "story").pool([foreign]))).toContain("though it lives");
    expect(problemsOf(new Told().pool([foreign], "story").pool([HOLD]))).toContain("foreign things");
    expect(problemsOf(new Told().pool(held, "story").pool(held))).toContain("for nothing");
  });
});

describe("what an owner owns", () => {
  const held = [FOREIGN_FINALIZER, HOLD];
  const owned = (finalizers: readonly string[]): Told =>
    later(
      new Told()
        .footprint()
        .pool(held, "story")
        .set("s1")
        .next("go")
        .pool(finalizers, "story", "2026-01-01T00:00:00Z"),
    );

  it("is removed with it, and keeps it until then", () => {
    expect(owned(held).set("s1", "controller", "DELETED").problems).toEqual([]);
    const early = owned(held).pool([FOREIGN_FINALIZER], "controller", "2026-01-01T00:00:00Z");
    expect(early.problems.join()).toContain("though it has pods");
  });

  it("must not be removed while it lives, or when it is to be left", () => {
    const alive = new Told().footprint().pool(held, "story").set("s1").set("s1", "controller", "DELETED");
    expect(alive.problems.join()).toContain("no pool of it");
    const left = owned([...held, ORPHAN]).set("s1", "controller", "DELETED");
    expect(left.problems.join()).toContain("no pool of it");
  });

  it("keeps it no longer than it may, and not before that", () => {
    const overdue = owned(held).next("late").pool([FOREIGN_FINALIZER], "controller", "2026-01-01T00:00:00Z");
    expect(overdue.problemsLate("late")).toEqual([]);
    expect(overdue.problemsLate().join()).toContain("though it has pods");
    expect(overdue.problemsLate("go").join()).toContain("though it has pods");
  });

  it("is told of in the end where it is left", () => {
    const pool = {
      ...poolObject("pool"),
      metadata: { uid: "pool-uid", finalizers: held, deletionTimestamp: "now" },
    };
    const view = { nodes: [], pods: [], footprints: [footprintObject("agent", {})], pools: [pool] };
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
    footprints: [footprintObject("agent", footprintSpec(false))],
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
