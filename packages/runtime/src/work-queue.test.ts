import { describe, expect, it } from "vitest";
import { createVirtualClock, systemClock } from "./clock.ts";
import { clusterName, type ObjectKey } from "./key.ts";
import { createRecordingMetrics } from "./testing/recording-metrics.ts";
import { type QueueTuning, WorkQueue } from "./work-queue.ts";

function setUp(tuning: QueueTuning = {}) {
  const clock = createVirtualClock();
  const metrics = createRecordingMetrics();
  const refused: string[] = [];
  const queue = new WorkQueue<string>({
    name: "test",
    clock,
    metrics,
    onOverflow: (key) => refused.push(key),
    backoff: { random: () => 0 },
    ...tuning,
  });
  const value = (name: string, labels = {}) =>
    metrics.value(`berth_workqueue_${name}`, { controller: "test", ...labels });
  return { clock, queue, value, refused };
}

/** Takes a key that is due now, or `undefined`. */
function take(queue: WorkQueue<string>) {
  const now = new AbortController();
  const next = queue.next(now.signal);
  now.abort();
  return next;
}

describe("WorkQueue", () => {
  it("holds a key once, whatever asks for it, and knows equal keys by their text", async () => {
    const clock = createVirtualClock();
    const queue = new WorkQueue({ name: "test", clock });
    const key = (name: string): ObjectKey => ({ cluster: clusterName("c"), namespace: "", name });
    queue.add(key("n1"));
    queue.add(key("n1"));
    queue.add(key("n2"));
    expect(queue.length).toBe(2);
    using first = await queue.next();
    expect(first?.key).toEqual(key("n1"));
  });

  it("makes one reconcile of a burst, which a steady stream cannot postpone", async () => {
    const { queue, clock, value } = setUp({ coalesceMs: 100 });
    for (let i = 0; i < 9; i++) {
      queue.add("a");
      await clock.advance(10);
    }
    expect(queue.length).toBe(0);
    await clock.advance(10);
    expect(queue.length).toBe(1);
    expect(value("adds_total")).toBe(1);
  });

  it("answers the first change of a quiet key at once, and makes one reconcile of those that follow", async () => {
    const { queue, clock } = setUp({ coalesceMs: 100, quietMs: 1_000 });
    const change = (): boolean => queue.add("a", { immediate: "ifQuiet" });
    const isDueAfter = async (ms: number): Promise<boolean> => {
      await clock.advance(ms);
      const lease = await take(queue);
      lease?.done();
      return lease !== undefined;
    };
    change();
    expect(await isDueAfter(0)).toBe(true);
    change();
    await clock.advance(60);
    change();
    expect([await isDueAfter(39), await isDueAfter(1), await isDueAfter(959)]).toEqual([false, true, false]);
    change();
    expect(await isDueAfter(99)).toBe(false);
    expect([await isDueAfter(1), await isDueAfter(900)]).toEqual([true, false]);
    change();
    expect(await isDueAfter(0)).toBe(true);
  });

  it("lets a new key wait, and what comes soon after it", async () => {
    const { queue, clock } = setUp({ coalesceMs: 100, quietMs: 1_000 });
    queue.add("a");
    await clock.advance(50);
    queue.add("a", { immediate: "ifQuiet" });
    expect(queue.length).toBe(0);
    await clock.advance(50);
    expect(queue.length).toBe(1);
  });

  it("raises a low key when a live event asks for it, and never lowers one", async () => {
    const { queue, value } = setUp();
    for (const key of ["a", "b", "c"]) queue.add(key, { priority: "low" });
    queue.add("c");
    queue.add("c", { priority: "low" });
    expect([value("depth", { priority: "high" }), value("depth", { priority: "low" })]).toEqual([1, 2]);
    expect((await take(queue))?.key).toBe("c");
  });

  it("backs off per key, honours a longer wait asked for by the server, and starts over when forgotten", async () => {
    const { queue, clock, value } = setUp();
    const fail = async (atLeastMs = 0): Promise<number> => {
      const lease = await queue.next();
      const delayMs = queue.retry("a", { atLeastMs });
      lease?.done();
      await clock.advance(delayMs);
      return delayMs;
    };
    queue.add("a");
    expect([await fail(), await fail(), await fail(900), await fail()]).toEqual([25, 50, 900, 200]);
    const lease = await queue.next();
    expect(lease?.retries).toBe(4);
    queue.forget("a");
    expect(queue.retry("a")).toBe(25);
    expect(value("retries_total")).toBe(5);
  });

  it("refuses keys beyond its bound aloud, once per overflow, and goes on with those it holds", async () => {
    const { queue, refused, value } = setUp({ maxKeys: 2 });
    expect(["a", "b", "c", "d", "a"].map((key) => queue.add(key))).toEqual([true, true, false, false, true]);
    expect([refused, value("refused_total")]).toEqual([["c"], 2]);
    (await queue.next())?.done();
    expect(queue.add("c")).toBe(true);
    expect(queue.add("e")).toBe(false);
    expect(refused).toEqual(["c", "e"]);
  });

  it("throws for a refused key when nobody listens, and for a delay that never ends", () => {
    const queue = new WorkQueue<string>({ name: "test", clock: createVirtualClock(), maxKeys: 1 });
    queue.add("a");
    expect(() => queue.add("b")).toThrow(RangeError);
    expect(() => queue.addAfter("a", Number.NaN)).toThrow(RangeError);
    expect(() => queue.addAfter("a", Number.POSITIVE_INFINITY)).toThrow(RangeError);
  });

  it("ends the workers on shutdown, drops what waits, and is drained when the last lease is done", async () => {
    const { queue, clock } = setUp();
    queue.add("a");
    const lease = await queue.next();
    const waiting = queue.next();
    queue.addAfter("b", 10);
    let drained = false;
    const drain = queue.shutDown().then(() => (drained = true));
    expect(await waiting).toBeUndefined();
    await clock.advance(100);
    expect([drained, queue.add("c"), queue.length, queue.delayed]).toEqual([false, false, 0, 0]);
    lease?.done();
    await drain;
    expect(await queue.next()).toBeUndefined();
    expect(clock.nextInMs).toBeUndefined();
  });

  it("tells how old its oldest key and its oldest lease are", async () => {
    const { queue, clock, value } = setUp();
    queue.add("a", { priority: "low" });
    await clock.advance(1_000);
    queue.add("b");
    await clock.advance(500);
    expect(value("oldest_age_seconds")).toBe(1.5);
    const lease = await queue.next();
    await clock.advance(2_000);
    expect([lease?.key, value("longest_running_processor_seconds")]).toEqual(["b", 2]);
    expect(value("queue_duration_seconds")).toBe(1);
  });

  it("keeps one timer for 20,000 delayed keys and takes them all in well under a second", async () => {
    const timers: number[] = [];
    const clock = {
      ...systemClock,
      schedule: (delayMs: number, callback: () => void) => {
        timers.push(delayMs);
        return systemClock.schedule(delayMs, callback);
      },
    };
    const queue = new WorkQueue<string>({ name: "test", clock });
    // Of the processor: what else the machine does is not the queue's.
    const startedAt = process.cpuUsage();
    for (let i = 0; i < 20_000; i++) queue.addAfter(`n${i}`, 60_000 + i);
    expect(timers).toHaveLength(1);
    for (let i = 0; i < 20_000; i++) queue.add(`n${i}`, { priority: "low" });
    for (let i = 19_999; i >= 0; i -= 2) queue.add(`n${i}`);
    for (let i = 0; i < 20_000; i++) (await queue.next())?.done();
    const { user, system } = process.cpuUsage(startedAt);
    void queue.shutDown();
    expect([queue.length, queue.delayed]).toEqual([0, 0]);
    expect((user + system) / 1_000).toBeLessThan(1_000);
  });
});
