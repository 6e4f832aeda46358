import { clusterName, type EventInput } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import {
  contestOf,
  createTemplateMemory,
  type Given,
  isStale,
  noteWritten,
  TemplateMemories,
  type TemplateMemory,
  tell,
} from "./template-memory.ts";

const MINUTE = 60_000;
const GIVEN: Given = { key: "supported-arch", value: "arm64" };
const OTHER: Given = { key: "supported-arch", value: "amd64" };

describe("the memories of templates", () => {
  const key = { cluster: clusterName("test"), namespace: "kube-system", name: "cni" };

  it("are one for each object until it is forgotten", () => {
    const memories = new TemplateMemories(createTemplateMemory);
    const memory = memories.of(key, "u1");
    expect(memories.of(key, "u1")).toBe(memory);
    expect(memories.of({ ...key, name: "csi" }, "u1")).not.toBe(memory);
    memories.forget(key);
    expect(memories.of(key, "u1")).not.toBe(memory);
  });

  it("begin anew with an object that is made anew", () => {
    const memories = new TemplateMemories(createTemplateMemory);
    const memory = memories.of(key, "u1");
    const again = memories.of(key, "u2");
    expect(again).toMatchObject({ uid: "u2" });
    expect(again).not.toBe(memory);
    expect(memories.of(key, "u2")).toBe(again);
  });
});

describe("a version is stale", () => {
  it.each([
    ["when it is the one that was written to", "1", "2", "1", true],
    ["not when it is the one that came of it", "1", "2", "2", false],
    ["not when it is another", "1", "2", "3", false],
    ["not when the write has left it as it was", "1", "1", "1", false],
  ])("%s", (_, from, to, seen, stale) => {
    const memory = createTemplateMemory("u1");
    expect(isStale(memory, seen)).toBe(false);
    noteWritten(memory, { from, to, given: [GIVEN], nowMs: 0 });
    expect(isStale(memory, seen)).toBe(stale);
  });
});

/** Gives it at once whenever it is missing and may be given. @returns when it was held, and from when on, in minutes. */
function reverted(memory: TemplateMemory, minutes: readonly number[], given = GIVEN) {
  const held: number[] = [];
  const started: number[] = [];
  for (const minute of minutes) {
    const nowMs = minute * MINUTE;
    const contest = contestOf(memory, [given], nowMs);
    if (contest === undefined) noteWritten(memory, { from: "1", to: "2", given: [given], nowMs });
    else held.push(minute);
    if (contest?.started) started.push(minute);
  }
  return { held, started };
}

describe("what is given and taken off again", () => {
  it("is put back three times within ten minutes", () => {
    expect(reverted(createTemplateMemory("u1"), [0, 1, 4, 6, 7])).toEqual({ held: [6, 7], started: [6] });
  });

  it("is no contest when it happens less often", () => {
    expect(reverted(createTemplateMemory("u1"), [0, 6, 12, 18, 24, 30]).held).toEqual([]);
  });

  it("is tried again after five minutes, then after twice as long each time, and at the latest after an hour", () => {
    const memory = createTemplateMemory("u1");
    let now = 3;
    reverted(memory, [0, 1, 2]);
    const waits: number[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const leftMs = contestOf(memory, [GIVEN], now * MINUTE)?.leftMs ?? 0;
      waits.push(leftMs / MINUTE);
      now += leftMs / MINUTE;
      expect(reverted(memory, [now - 0.1, now])).toEqual({ held: [now - 0.1], started: [] });
    }
    expect(waits).toEqual([5, 10, 20, 40, 60, 60]);
  });

  it("is forgotten after ten quiet minutes", () => {
    const memory = createTemplateMemory("u1");
    expect(reverted(memory, [0, 1, 2, 3, 8]).started).toEqual([3]);
    expect(reverted(memory, [19, 20, 21, 22]).started).toEqual([22]);
    expect(contestOf(memory, [GIVEN], 22 * MINUTE)?.leftMs).toBe(5 * MINUTE);
  });

  it("counts only what was given before: another wish begins anew", () => {
    const memory = createTemplateMemory("u1");
    expect(reverted(memory, [0, 1, 2, 3]).started).toEqual([3]);
    expect(contestOf(memory, [OTHER], 4 * MINUTE)).toBeUndefined();
    expect(reverted(memory, [4, 5, 6], OTHER).held).toEqual([]);
    expect(reverted(memory, [7], OTHER).started).toEqual([7]);
  });

  it("counts by value, and by the key alone where there is none", () => {
    const memory = createTemplateMemory("u1");
    noteWritten(memory, { from: "1", to: "2", given: [{ key: "a" }], nowMs: 0 });
    expect([...memory.given]).toEqual(["a"]);
    noteWritten(memory, { from: "2", to: "3", given: [{ key: "a" }, GIVEN], nowMs: 1 });
    expect([...memory.given]).toEqual(["a", "supported-arch=arm64"]);
  });

  it("takes no more memory with each time", () => {
    const memory = createTemplateMemory("u1");
    for (let nowMs = 0; nowMs < 100; nowMs++)
      noteWritten(memory, { from: "1", to: "2", given: [GIVEN], nowMs });
    expect(memory.writes).toEqual([97, 98, 99]);
  });
});

describe("a write that was taken", () => {
  it("is looked at again only when it has changed nothing", () => {
    const memory = createTemplateMemory("u1");
    expect(noteWritten(memory, { from: "1", to: "2", given: [GIVEN], nowMs: 0 })).toBeUndefined();
    const undone = noteWritten(memory, { from: "2", to: "2", given: [GIVEN], nowMs: 0 });
    expect(undone?.recheckAfterMs).toBeGreaterThan(0);
  });
});

describe("what is told of an object", () => {
  const regarding = { apiVersion: "apps/v1", kind: "DaemonSet", namespace: "kube-system", name: "cni" };
  const refused = { regarding, reason: "WriteRefused", note: "no", type: "Warning", action: "Give" } as const;
  const done = { ...refused, reason: "AgentFollows", type: "Normal" } as const;

  it("is a warning once until the next write, and anything else each time", () => {
    const events: EventInput[] = [];
    const sink = { record: (event: EventInput) => events.push(event) };
    const memory = createTemplateMemory("u1");
    tell(memory, sink, refused);
    tell(memory, sink, { ...refused, note: "still no" });
    tell(memory, sink, { ...refused, reason: "Contested" });
    expect(events.map(({ reason }) => reason)).toEqual(["WriteRefused", "Contested"]);
    noteWritten(memory, { from: "1", to: "2", given: [GIVEN], nowMs: 0 });
    for (const event of [done, done, refused]) tell(memory, sink, event);
    expect(events.slice(2)).toEqual([done, done, refused]);
  });
});
