import { getEventListeners } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { Deadline } from "./deadline.ts";

const LONG_MS = 60_000;
const never = new Promise<never>(() => undefined);

describe("Deadline", () => {
  it("ends by its time, and says so", async () => {
    using deadline = new Deadline(1);
    await expect(deadline.race(never)).rejects.toThrow(/abort/);
    expect(deadline.passed).toBe(true);
  });

  it("ends with either parent, which is not the time limit", () => {
    for (const which of [0, 1]) {
      const parents = [new AbortController(), new AbortController()];
      using deadline = new Deadline(LONG_MS, ...parents.map(({ signal }) => signal));
      parents[which]?.abort();
      expect(deadline.signal.aborted).toBe(true);
      expect(deadline.passed).toBe(false);
    }
  });

  it("has ended already when a parent had", () => {
    using deadline = new Deadline(LONG_MS, undefined, AbortSignal.abort());
    expect(deadline.signal.aborted).toBe(true);
  });

  it("leaves nothing on its parents when disposed", () => {
    const parent = new AbortController();
    const deadline = new Deadline(LONG_MS, parent.signal);
    expect(getEventListeners(parent.signal, "abort")).toHaveLength(1);
    deadline[Symbol.dispose]();
    expect(getEventListeners(parent.signal, "abort")).toHaveLength(0);
  });

  it("has another time limit once restarted, and still its parents", async () => {
    const parent = new AbortController();
    using deadline = new Deadline(1, parent.signal);
    deadline.restart(LONG_MS);
    using later = new Deadline(20);
    await later.race(never).catch(() => undefined);
    expect(deadline.signal.aborted).toBe(false);
    deadline.restart(1);
    await deadline.race(never).catch(() => undefined);
    expect(deadline.passed).toBe(true);
    using other = new Deadline(1, parent.signal);
    other.restart(LONG_MS);
    parent.abort();
    expect([other.signal.aborted, other.passed]).toEqual([true, false]);
  });
});

describe("Deadline.race", () => {
  it("gives what comes in time, good or bad, and leaves no listener", async () => {
    using deadline = new Deadline(LONG_MS);
    await expect(deadline.race(Promise.resolve(7))).resolves.toBe(7);
    await expect(deadline.race(Promise.reject(new Error("bad")))).rejects.toThrow("bad");
    await Promise.resolve();
    expect(getEventListeners(deadline.signal, "abort")).toHaveLength(0);
  });

  it("does not wait for what does not come, and discards what comes too late", async () => {
    const parent = new AbortController();
    using deadline = new Deadline(LONG_MS, parent.signal);
    const { promise, resolve } = Promise.withResolvers<string>();
    const late: string[] = [];
    const raced = deadline.race(promise, (value) => late.push(value));
    parent.abort();
    await expect(raced).rejects.toThrow(/abort/);
    resolve("too late");
    await vi.waitFor(() => expect(late).toEqual(["too late"]));
  });

  it("swallows an error that comes too late", async () => {
    using deadline = new Deadline(LONG_MS, AbortSignal.abort());
    await expect(deadline.race(Promise.reject(new Error("late")))).rejects.toThrow(/abort/i);
  });
});
