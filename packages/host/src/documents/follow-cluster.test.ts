import { describe, expect, it } from "vitest";
import { CRD_GRACE_MS, LOOK_MS, PATIENCE_MS } from "./follow-cluster.ts";
import { type Answer, gateOf, setUp } from "./testing/follower-world.ts";

describe("documents of the cluster", () => {
  it("are told at the start and when they change, but not when only their status does", async () => {
    await using it = await setUp();
    const a = gateOf("a");
    it.objects.set("a", Object.assign({ status: {} }, a));
    await it.tell({ type: "updated", old: a, object: a });
    expect([it.told.length, it.last()]).toEqual([1, "a,b"]);
    await it.remove("a");
    expect([it.told.length, it.last()]).toEqual([2, "b"]);
    await it.clock.advance(2 * PATIENCE_MS);
    expect(it.told).toHaveLength(2);
  });

  it("are told when an annotation changes that is read, and not for others", async () => {
    await using it = await setUp();
    for (const [key, times] of [
      ["example.com/other", 1],
      ["example.com/read", 2],
    ] as const) {
      const old = gateOf("a");
      const object = { ...old, metadata: { ...old.metadata, annotations: { [key]: "true" } } };
      it.objects.set("a", object);
      await it.tell({ type: "updated", old, object });
      expect(it.told).toHaveLength(times);
    }
  });

  it("are gone on without when they may not be read, or cannot", async () => {
    for (const refusal of ["forbidden", undefined]) {
      const may = refusal === undefined ? {} : { absent: true, refusal };
      await using it = await setUp({ synced: false, names: [], ...may });
      await it.clock.advance(PATIENCE_MS - 1);
      expect(it.told).toEqual([]);
      await it.clock.advance(10 * PATIENCE_MS);
      expect(it.told).toEqual(["unreadable"]);
      expect([it.world.questions, it.messages]).toEqual([0, []]);
    }
  });

  it("are deleted when their CRD is served, which is asked about once for each look", async () => {
    await using it = await setUp();
    expect(it.world.questions).toBe(1);
    await it.add("c");
    expect(it.world.questions).toBe(1);
    await it.remove("a", "b");
    expect([it.last(), it.unsettled(), it.world.questions]).toEqual(["c", undefined, 2]);
  });

  it("stay while the API server does not answer", async () => {
    await using it = await setUp();
    it.world.answer = { kind: "unreachable" };
    await it.remove("a");
    expect(it.last()).toBe("a,b");
    it.world.answer = "served";
    await it.clock.advance(LOOK_MS);
    expect(it.last()).toBe("b");
  });

  it("are seen to go although the API server was slow to answer about others", async () => {
    await using it = await setUp({ ageMs: 0, names: ["a", "b", "c"] });
    it.world.latencyMs = 1000;
    await it.remove("a");
    await it.remove("b");
    await it.clock.advance(3000);
    expect(it.last()).toBe("c");
  });

  it("are deleted when the CRD may not be read, unless it is all of them", async () => {
    await using it = await setUp();
    it.world.answer = { kind: "forbidden" };
    await it.remove("a");
    expect(it.last()).toBe("a,b");
    await it.clock.advance(PATIENCE_MS + LOOK_MS);
    expect(it.last()).toBe("b");
    await it.remove("b");
    expect(it.last()).toBe("b");
    expect(it.messages.at(-1)).toContain("reading it is forbidden");
    await it.clock.advance(CRD_GRACE_MS + LOOK_MS);
    expect(it.last()).toBe("");
  });

  it("I-15 stay while the API server refuses everything, as it does after it has started", async () => {
    await using it = await setUp();
    it.world.answer = { kind: "forbidden" };
    await it.remove("a", "b");
    await it.clock.advance(LOOK_MS);
    expect(it.last()).toBe("a,b");
    it.world.answer = { kind: "notFound" };
    await it.clock.advance(LOOK_MS);
    expect(it.last()).toBe("a,b");
    expect(it.messages.at(-1)).toContain("is not served");
    await it.add("a");
    it.world.answer = "served";
    await it.clock.advance(LOOK_MS);
    expect(it.last()).toBe("a");
  });

  it("are in force at once, and none counts as deleted, where the CRD cannot be read at the start", async () => {
    await using it = await setUp({ answer: { kind: "forbidden" } });
    expect([it.last(), it.unsettled()]).toEqual(["a,b", new Set()]);
    await it.clock.advance(PATIENCE_MS);
    expect([it.last(), it.unsettled()]).toEqual(["a,b", undefined]);
    const { questions } = it.world;
    await it.clock.advance(10 * LOOK_MS);
    expect(it.world.questions).toBe(questions);
  });
});

describe("I-3 a CRD that is away", () => {
  it.each<Answer>(["ending", { kind: "notFound" }])(
    "(%j) leaves its objects in force for the grace period",
    async (answer) => {
      for (const whenAway of ["keep", "release"] as const) {
        await using it = await setUp({ whenAway });
        it.world.answer = answer;
        await it.remove("a");
        it.world.absent = true;
        await it.remove("b");
        expect(it.last()).toBe("a,b");
        expect(it.messages).toEqual([
          expect.stringMatching(/^StartupGate: The CRD startupgates\.berth\.dev is not served: /),
        ]);
        expect(it.follower.note?.()).toContain("is not served");
        await it.clock.advance(CRD_GRACE_MS - 1000);
        expect(it.last()).toBe("a,b");
        await it.clock.advance(2 * LOOK_MS);
        expect([it.last(), it.told.length]).toEqual([whenAway === "keep" ? undefined : "", 3]);
        expect(it.messages.at(-1)).toContain("is not served, for 10 min now");
      }
    },
  );

  it("is away too when it went while nobody watched, and nothing changes when it comes back as it was", async () => {
    await using it = await setUp();
    it.world.absent = true;
    await it.clock.advance(LOOK_MS);
    expect([it.last(), it.messages.length]).toEqual(["a,b", 1]);
    it.world.absent = false;
    await it.clock.advance(LOOK_MS);
    expect([it.last(), it.unsettled(), it.messages.at(-1)]).toEqual(["a,b", undefined, undefined]);
  });

  it("that is created again has the objects of before in force until they come, or it is settled", async () => {
    await using it = await setUp();
    it.world.answer = "ending";
    await it.remove("a", "b");
    it.world.absent = true;
    await it.clock.advance(60_000);
    it.world.absent = false;
    it.world.answer = "served";
    it.world.crd = { uid: "another", createdAt: it.clock.now() };
    await it.clock.advance(LOOK_MS);
    expect([it.last(), it.unsettled()]).toEqual(["a,b", new Set()]);
    await it.add("a", "a2");
    expect(it.last()).toBe("a,b");
    await it.remove("a");
    expect([it.last(), it.unsettled()]).toEqual(["b", new Set(["cluster/a"])]);
    await it.clock.advance(CRD_GRACE_MS);
    expect([it.last(), it.unsettled()]).toEqual(["", undefined]);
  });

  it("and back between two looks has deleted nothing", async () => {
    await using it = await setUp();
    it.world.crd = { uid: "another", createdAt: it.clock.now() };
    await it.remove("a", "b");
    expect(it.last()).toBe("a,b");
  });

  it.each(["keep", "release"] as const)(
    "at the start removes nothing before the grace period is over (%s)",
    async (whenAway) => {
      await using it = await setUp({ whenAway, synced: false, absent: true, names: [], hasMarks: true });
      expect(it.told).toEqual([undefined]);
      expect(it.messages).toHaveLength(1);
      await it.clock.advance(CRD_GRACE_MS - 1000);
      expect(it.told).toEqual([undefined]);
      await it.clock.advance(2 * LOOK_MS);
      expect(it.told).toEqual(whenAway === "keep" ? [undefined] : [undefined, { objects: [] }]);
      expect(it.world.questions).toBe(0);
    },
  );

  it("is not worth a word where no object of it was ever in force", async () => {
    await using it = await setUp({ synced: false, absent: true, names: [] });
    await it.clock.advance(2 * CRD_GRACE_MS);
    expect([it.messages, it.follower.note?.()]).toEqual([[], undefined]);
  });
});

describe("I-3 a young CRD", () => {
  it("may not have all its objects yet, but what is seen to go is gone", async () => {
    await using it = await setUp({ ageMs: CRD_GRACE_MS - 60_000 });
    expect(it.unsettled()).toEqual(new Set());
    await it.remove("a");
    expect(it.unsettled()).toEqual(new Set(["cluster/a"]));
    await it.add("a");
    expect(it.unsettled()).toEqual(new Set());
    await it.clock.advance(60_000);
    expect(it.unsettled()).toBeUndefined();
  });
});
