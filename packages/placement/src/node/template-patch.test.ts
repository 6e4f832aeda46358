import { ApiError, type ApiFailure, type KubeObject } from "@berth/kube";
import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { createTemplateMemory, isStale } from "./template-memory.ts";
import { patchTemplate } from "./template-patch.ts";

const MINUTE = 60_000;

/** Patches as the server answers each of them. */
class World {
  readonly memory = createTemplateMemory("u1");
  readonly refused: string[] = [];
  written = 0;

  /** @returns when to look again, ms. */
  async patch(resourceVersion: string, answer: string | ApiFailure): Promise<number | undefined> {
    const result = await patchTemplate({
      memory: this.memory,
      resourceVersion,
      given: [{ key: "a", value: "1" }],
      send: () => Promise.resolve().then(() => answered(answer)),
      clock: createVirtualClock(),
      onWritten: () => this.written++,
      onRefused: (note) => this.refused.push(note),
    });
    return result?.recheckAfterMs;
  }
}

function answered(answer: string | ApiFailure): KubeObject {
  if (typeof answer === "string") return { metadata: { resourceVersion: answer } };
  throw new ApiError(answer, { verb: "patch", resource: "daemonsets" });
}

const outdated: ApiFailure = { kind: "invalid", causes: [] };
const forbidden: ApiFailure = { kind: "forbidden", ofObject: true };

describe("a patch of a template", () => {
  it("is remembered when the server has taken it", async () => {
    const world = new World();
    expect(await world.patch("1", "2")).toBeUndefined();
    expect(world.written).toBe(1);
    expect(isStale(world.memory, "1")).toBe(true);
    expect(isStale(world.memory, "2")).toBe(false);
  });

  it("is looked at again soon when something has undone it before it was stored", async () => {
    const world = new World();
    expect(await world.patch("1", "1")).toBeLessThan(MINUTE);
    expect(world.written).toBe(1);
  });

  it("may have been for an older version when it is refused once, and is refused for good the second time", async () => {
    const world = new World();
    expect(await world.patch("1", outdated)).toBeLessThan(MINUTE);
    expect(world.refused).toEqual([]);
    expect(await world.patch("2", outdated)).toBeLessThan(MINUTE);
    expect(world.refused).toEqual([]);
    expect(await world.patch("2", outdated)).toBeGreaterThan(MINUTE);
    expect(world.refused).toHaveLength(1);
    expect(world.written).toBe(0);
  });

  it("begins anew with refusals once one was taken", async () => {
    const world = new World();
    await world.patch("1", outdated);
    await world.patch("1", "1");
    expect(await world.patch("1", outdated)).toBeLessThan(MINUTE);
    expect(world.refused).toEqual([]);
  });

  it("is refused for good at once when it is forbidden", async () => {
    const world = new World();
    expect(await world.patch("1", forbidden)).toBeGreaterThan(MINUTE);
    expect(world.refused).toHaveLength(1);
  });

  it("I-15 for want of permission is told, and fails, so that the controller tries again", async () => {
    const world = new World();
    const failed = world.patch("1", { kind: "forbidden" });
    await expect(failed).rejects.toMatchObject({ failure: { kind: "forbidden" } });
    expect(world.refused).toHaveLength(1);
  });

  it("of an object that is gone is no failure", async () => {
    const world = new World();
    expect(await world.patch("1", { kind: "notFound" })).toBeUndefined();
    expect([world.written, world.refused]).toEqual([0, []]);
  });

  it("fails with what is no answer to it", async () => {
    const world = new World();
    const failed = world.patch("1", { kind: "aborted" });
    await expect(failed).rejects.toMatchObject({ failure: { kind: "aborted" } });
    expect([world.written, world.refused]).toEqual([0, []]);
  });
});
