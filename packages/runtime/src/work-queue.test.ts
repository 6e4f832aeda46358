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
    metrics.value(`workqueue_${name}`, { controller: "test", ...labels });
  return { clock, queue, value, refused };
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

  it("throws for a refused key when nobody listens, and for a delay that never ends", () => {
    const queue = new WorkQueue<string>({ name: "test", clock: createVirtualClock(), maxKeys: 1 });
    queue.add("a");
    expect(() => queue.add("b")).toThrow(RangeError);
    expect(() => queue.addAfter("a", Number.NaN)).toThrow(RangeError);
    expect(() => queue.addAfter("a", Number.POSITIVE_INFINITY)).toThrow(RangeError);
  });

  it("measures what waits and how long, what is refused, taken and tried again", async () => {
    const { queue, clock, value, refused } = setUp({ maxKeys: 2 });
    queue.add("a", { priority: "low" });
    await clock.advance(1_000);
    for (const key of ["b", "c", "d"]) queue.add(key);
    await clock.advance(500);
    expect([value("depth", { priority: "high" }), value("depth", { priority: "low" })]).toEqual([1, 1]);
    expect([value("adds_total"), value("refused_total"), refused]).toEqual([2, 2, ["c"]]);
    expect(value("oldest_age_seconds")).toBe(1.5);
    const lease = await queue.next();
    await clock.advance(2_000);
    expect([lease?.key, value("longest_running_processor_seconds")]).toEqual(["b", 2]);
    expect(value("queue_duration_seconds")).toBe(1);
    queue.retry("b");
    expect(value("retries_total")).toBe(1);
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
