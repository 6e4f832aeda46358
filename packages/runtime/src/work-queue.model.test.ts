/** Random histories of a queue, compared step by step with a model that is too simple to be wrong. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock, sleep, type VirtualClock } from "./clock.ts";
import { HIGH_IN_A_ROW, type Priority } from "./ready-list.ts";
import { type Lease, WorkQueue } from "./work-queue.ts";

interface Key {
  /** Absent: nothing is asked for. */
  dueAt?: number;
  priority: Priority;
  leased: boolean;
  retries: number;
}

interface Model {
  now: number;
  readonly coalesceMs: number;
  highInARow: number;
  readonly keys: Map<string, Key>;
}

interface Real {
  readonly clock: VirtualClock;
  readonly queue: WorkQueue<string>;
  readonly leases: Map<string, Lease<string>>;
}

type Command = fc.AsyncCommand<Model, Real>;

function keyIn(model: Model, name: string): Key {
  const key = model.keys.get(name) ?? { priority: "low", leased: false, retries: 0 };
  model.keys.set(name, key);
  return key;
}

function ask(model: Model, name: string, delayMs: number, priority: Priority): void {
  const key = keyIn(model, name);
  const fresh = key.dueAt === undefined;
  key.priority = fresh || priority === "high" ? priority : key.priority;
  key.dueAt = Math.min(key.dueAt ?? Number.POSITIVE_INFINITY, model.now + delayMs);
}

function dueIn(model: Model, priority?: Priority): string[] {
  const isDue = (key: Key): boolean => !key.leased && key.dueAt !== undefined && key.dueAt <= model.now;
  return [...model.keys]
    .filter(([, key]) => isDue(key) && (priority === undefined || key.priority === priority))
    .map(([name]) => name);
}

function compare(model: Model, real: Real): void {
  const free = [...model.keys.values()].filter((key) => !key.leased && key.dueAt !== undefined);
  expect(real.queue.depth("high")).toBe(dueIn(model, "high").length);
  expect(real.queue.depth("low")).toBe(dueIn(model, "low").length);
  expect(real.queue.delayed).toBe(free.length - dueIn(model).length);
  expect(real.queue.leased).toBe([...model.keys.values()].filter((key) => key.leased).length);
}

/** A command that changes model and queue, then compares them. */
function command(text: string, run: (model: Model, real: Real) => void | Promise<void>): Command {
  return {
    check: () => true,
    toString: () => text,
    run: async (model, real) => {
      await run(model, real);
      compare(model, real);
    },
  };
}

const add = (name: string, priority: Priority): Command =>
  command(`add(${name}, ${priority})`, (model, { queue }) => {
    ask(model, name, model.coalesceMs, priority);
    queue.add(name, { priority });
  });

const addAfter = (name: string, delayMs: number, priority: Priority): Command =>
  command(`addAfter(${name}, ${delayMs}, ${priority})`, (model, { queue }) => {
    ask(model, name, delayMs, priority);
    queue.addAfter(name, delayMs, { priority });
  });

const retry = (name: string): Command =>
  command(`retry(${name})`, (model, { queue }) => {
    const key = keyIn(model, name);
    const delayMs = Math.min(400, 25 * 2 ** key.retries);
    key.retries++;
    ask(model, name, delayMs, "high");
    expect(queue.retry(name)).toBe(delayMs);
  });

const forget = (name: string): Command =>
  command(`forget(${name})`, (model, { queue }) => {
    keyIn(model, name).retries = 0;
    queue.forget(name);
  });

const advance = (ms: number): Command =>
  command(`advance(${ms})`, async (model, { clock }) => {
    model.now += ms;
    await clock.advance(ms);
  });

const done = (index: number): Command =>
  command(`done(${index})`, (model, { leases }) => {
    const [name, lease] = [...leases][index % Math.max(1, leases.size)] ?? [];
    if (name === undefined || lease === undefined) return;
    keyIn(model, name).leased = false;
    leases.delete(name);
    lease.done();
  });

const take = (): Command =>
  command("take()", async (model, real) => {
    const [due, low] = [dueIn(model), dueIn(model, "low")];
    const noWaiting = new AbortController();
    const next = real.queue.next(noWaiting.signal);
    noWaiting.abort();
    const lease = await next;
    expect(due.includes(lease?.key ?? "") || (lease === undefined && due.length === 0)).toBe(true);
    if (lease === undefined) return;
    const key = keyIn(model, lease.key);
    const expected = low.length > 0 && (low.length === due.length || model.highInARow === HIGH_IN_A_ROW);
    expect([lease.priority, lease.retries]).toEqual([expected ? "low" : "high", key.retries]);
    model.highInARow = low.length > 0 && !expected ? model.highInARow + 1 : 0;
    delete key.dueAt;
    key.leased = true;
    real.leases.set(lease.key, lease);
  });

const name = fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l");
const priority = fc.constantFrom<Priority>("high", "low");
const commands = fc.commands(
  [
    fc.tuple(name, priority).map(([n, p]) => add(n, p)),
    fc
      .tuple(name, fc.integer({ min: -5, max: 300 }), priority)
      .map(([n, ms, p]) => addAfter(n, Math.max(0, ms), p)),
    name.map(retry),
    name.map(forget),
    fc.integer({ min: 0, max: 150 }).map(advance),
    fc.nat(11).map(done),
    fc.constant(take()),
    fc.constant(take()),
  ],
  { maxCommands: 80, size: "max" },
);

describe("WorkQueue, against a model", () => {
  it("dedupes, raises, keeps the soonest time, counts retries and never leases a key twice", async () => {
    await fc.assert(
      fc.asyncProperty(commands, fc.constantFrom(0, 0, 20), async (commands, coalesceMs) => {
        const clock = createVirtualClock();
        const backoff = { capMs: 800, random: () => 0 };
        const queue = new WorkQueue<string>({ name: "test", clock, coalesceMs, backoff });
        await fc.asyncModelRun(
          () => ({
            model: { now: 0, coalesceMs, highInARow: 0, keys: new Map() },
            real: { clock, queue, leases: new Map() },
          }),
          commands,
        );
        void queue.shutDown();
        expect([queue.length, queue.delayed]).toEqual([0, 0]);
      }),
      { numRuns: 200 },
    );
  });
});

const request = fc.record({
  atMs: fc.integer({ min: 0, max: 500 }),
  name: fc.constantFrom("a", "b", "c", "d"),
  delayMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 300 })),
  priority,
});
const workload = fc.record({
  requests: fc.array(request, { maxLength: 40 }),
  workers: fc.integer({ min: 1, max: 4 }),
  coalesceMs: fc.constantFrom(0, 15),
  /** How long each reconcile takes, and whether it fails, in turn. */
  turns: fc.array(fc.record({ takesMs: fc.integer({ min: 0, max: 60 }), fails: fc.boolean() }), {
    minLength: 1,
  }),
});

interface Observed {
  /** Sequence number of the last request and of the last lease of each key. */
  readonly asked: Map<string, number>;
  readonly leasedLast: Map<string, number>;
  readonly inHand: Set<string>;
  twiceAtOnce: boolean;
  order: number;
}

/** One worker: holds a key for a while, and retries it when the turn fails. */
async function work(
  queue: WorkQueue<string>,
  clock: VirtualClock,
  seen: Observed,
  turn: () => { takesMs: number; fails: boolean },
) {
  for (let lease = await queue.next(); lease !== undefined; lease = await queue.next()) {
    seen.twiceAtOnce ||= seen.inHand.has(lease.key);
    seen.inHand.add(lease.key);
    seen.leasedLast.set(lease.key, seen.order++);
    const { takesMs, fails } = turn();
    await sleep(clock, takesMs);
    if (fails && lease.retries < 3) queue.retry(lease.key);
    else queue.forget(lease.key);
    seen.inHand.delete(lease.key);
    lease.done();
  }
}

describe("WorkQueue, with workers", () => {
  it("gives every request a lease that began after it, one worker a key, and drains", async () => {
    await fc.assert(
      fc.asyncProperty(workload, async ({ requests, workers, coalesceMs, turns }) => {
        const clock = createVirtualClock();
        const queue = new WorkQueue<string>({
          name: "test",
          clock,
          coalesceMs,
          backoff: { random: () => 0.5 },
        });
        const seen: Observed = {
          asked: new Map(),
          leasedLast: new Map(),
          inHand: new Set(),
          twiceAtOnce: false,
          order: 0,
        };
        let turnIndex = 0;
        const turn = () => turns[turnIndex++ % turns.length] ?? { takesMs: 0, fails: false };
        for (const { atMs, name, delayMs, priority } of requests) {
          clock.schedule(atMs, () => {
            seen.asked.set(name, seen.order++);
            queue.addAfter(name, delayMs, { priority });
          });
        }
        const working = Array.from({ length: workers }, () => work(queue, clock, seen, turn));
        while (clock.nextInMs !== undefined) await clock.advance(clock.nextInMs);
        expect([queue.length, queue.delayed, queue.leased]).toEqual([0, 0, 0]);
        expect(seen.twiceAtOnce).toBe(false);
        for (const [name, order] of seen.asked) expect(seen.leasedLast.get(name)).toBeGreaterThan(order);
        await Promise.all([queue.shutDown(), ...working]);
      }),
      { numRuns: 100 },
    );
  });
});
