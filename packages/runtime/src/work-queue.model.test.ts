/** Random histories of a queue, compared step by step with a model that is too simple to be wrong. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock, sleep, type VirtualClock } from "./clock.ts";
import type { Priority } from "./ready-list.ts";
import { seededRun } from "./testing/property.ts";
import { QueueModel } from "./testing/queue-model.ts";
import { type AddOptions, type Lease, type RetryOptions, WorkQueue } from "./work-queue.ts";

/** The most a wait of the queue under test can be; its base is the default. */
const CAP_MS = 800;

interface Real {
  readonly clock: VirtualClock;
  readonly queue: WorkQueue<string>;
  /** Workers that wait, by number; aborting is leaving. */
  readonly waiting: Map<number, AbortController>;
  /** Every lease given out and not done, by key. */
  readonly leases: Map<string, Lease<string>>;
  /** What was given to whom since the last look: `worker key priority retries`, or `worker nothing`. */
  given: string[];
  overflows: number;
  drained: boolean;
  workers: number;
}

type Command = fc.AsyncCommand<QueueModel, Real>;

/** A command that changes model and queue, then compares all that can be seen of them. */
function command(text: string, run: (model: QueueModel, real: Real) => void | Promise<void>): Command {
  return {
    check: () => true,
    toString: () => text,
    run: async (model, real) => {
      await run(model, real);
      await real.clock.advance(0);
      compare(model, real);
    },
  };
}

function compare(model: QueueModel, real: Real): void {
  const { queue } = real;
  const seen = {
    given: real.given,
    high: queue.depth("high"),
    low: queue.depth("low"),
    delayed: queue.delayed,
    leased: queue.leased,
    oldestAgeMs: queue.oldestAgeMs,
    longestRunningMs: queue.longestRunningMs,
    overflows: real.overflows,
    drained: real.drained,
  };
  expect(seen).toEqual(model.look());
  real.given = [];
}

const add = (name: string, options: AddOptions): Command =>
  command(`add(${name}, ${JSON.stringify(options)})`, (model, { queue }) => {
    expect(queue.add(name, options)).toBe(model.add(name, options));
  });

const addAfter = (name: string, delayMs: number, priority: Priority): Command =>
  command(`addAfter(${name}, ${delayMs}, ${priority})`, (model, { queue }) => {
    expect(queue.addAfter(name, delayMs, { priority })).toBe(model.ask(name, Math.max(0, delayMs), priority));
  });

const retry = (name: string, options: RetryOptions): Command =>
  command(`retry(${name}, ${JSON.stringify(options)})`, (model, { queue }) => {
    const { baseMs = 50, atLeastMs = 0, priority = "high" } = options;
    const delayMs = Math.max(atLeastMs, Math.min(CAP_MS, baseMs * 2 ** model.fail(name)) / 2);
    model.ask(name, delayMs, priority);
    expect(queue.retry(name, options)).toBe(delayMs);
  });

const forget = (name: string): Command =>
  command(`forget(${name})`, (model, { queue }) => {
    model.forget(name);
    queue.forget(name);
  });

const advance = (ms: number): Command =>
  command(`advance(${ms})`, async (model, { clock }) => {
    model.advance(ms);
    await clock.advance(ms);
  });

async function receive(real: Real, worker: number, signal: AbortSignal): Promise<void> {
  const lease = await real.queue.next(signal);
  real.waiting.delete(worker);
  if (lease !== undefined) real.leases.set(lease.key, lease);
  const what = lease === undefined ? "nothing" : `${lease.key} ${lease.priority} ${lease.retries}`;
  real.given.push(`${worker} ${what}`);
}

/** One more worker asks for a key; `patient` ones wait until there is one. */
const next = (patient: boolean): Command =>
  command(patient ? "next()" : "next() and leave", (model, real) => {
    const worker = real.workers++;
    const leaving = new AbortController();
    real.waiting.set(worker, leaving);
    void receive(real, worker, leaving.signal);
    model.next(worker);
    if (patient) return;
    leaving.abort();
    model.leave(worker);
  });

const leave = (index: number): Command =>
  command(`leave(${index})`, (model, { waiting }) => {
    const [worker, leaving] = [...waiting][index % Math.max(1, waiting.size)] ?? [];
    if (worker === undefined) return;
    leaving?.abort();
    model.leave(worker);
  });

const done = (index: number, twice: boolean): Command =>
  command(`done(${index}${twice ? ", twice" : ""})`, (model, { leases }) => {
    const [name, lease] = [...leases][index % Math.max(1, leases.size)] ?? [];
    if (name === undefined || lease === undefined) return;
    leases.delete(name);
    model.done(name);
    lease.done();
    if (twice) lease.done();
  });

async function noteDrained(real: Real): Promise<void> {
  await real.queue.shutDown();
  real.drained = true;
}

const shutDown = (): Command =>
  command("shutDown()", (model, real) => {
    model.shutDown();
    void noteDrained(real);
  });

const name = fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l");
const priority = fc.constantFrom<Priority>("high", "low");
const retryOptions = fc.record(
  { baseMs: fc.constantFrom(10, 100), atLeastMs: fc.constantFrom(0, 30, 1_000), priority },
  { requiredKeys: [] },
);
const addOptions = fc.record(
  { priority, immediate: fc.constantFrom<boolean | "ifQuiet">(true, false, "ifQuiet", "ifQuiet") },
  { requiredKeys: [] },
);
const commands = fc.commands(
  [
    fc.tuple(name, addOptions).map(([n, options]) => add(n, options)),
    fc.tuple(name, addOptions).map(([n, options]) => add(n, options)),
    fc.tuple(name, fc.integer({ min: -5, max: 300 }), priority).map(([n, ms, p]) => addAfter(n, ms, p)),
    fc.tuple(name, retryOptions).map(([n, options]) => retry(n, options)),
    name.map(forget),
    fc.integer({ min: 0, max: 150 }).map(advance),
    fc.tuple(fc.nat(11), fc.boolean()).map(([index, twice]) => done(index, twice)),
    fc.nat(11).map(leave),
    fc.constant(next(true)),
    fc.constant(next(false)),
    fc.constant(next(false)),
    // Rarely: after it there is not much left to see.
    fc.nat(30).map((n) => (n === 0 ? shutDown() : advance(n))),
  ],
  { maxCommands: 120, size: "max" },
);
const tuning = fc.record({
  coalesceMs: fc.constantFrom(0, 0, 20),
  quietMs: fc.constantFrom(undefined, 10, 100),
  maxKeys: fc.constantFrom(3, 1_000_000, 1_000_000),
});

/** Carries out what is left to do: all that was asked for comes, and then there is nothing. */
const settle = (): Command =>
  command("settle", async (model, real) => {
    for (let round = 0; round < 100 && (model.pending > 0 || real.leases.size > 0); round++) {
      await done(0, false).run(model, real);
      await next(true).run(model, real);
      await advance(100).run(model, real);
    }
    expect([real.queue.length, real.queue.delayed, real.queue.leased]).toEqual([0, 0, 0]);
  });

describe("WorkQueue, against a model", () => {
  const run = seededRun(400, process.env);
  it(
    `gives each key at its time, in order, to one worker, and nothing after it is shut down (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(commands, tuning, async (commands, { quietMs, ...tuning }) => {
          const clock = createVirtualClock();
          const backoff = { capMs: CAP_MS, random: () => 0 };
          const model = new QueueModel({ quietMs, ...tuning });
          const onOverflow = (): void => void real.overflows++;
          const queue = new WorkQueue<string>({
            name: "test",
            clock,
            ...tuning,
            ...(quietMs !== undefined && { quietMs }),
            backoff,
            onOverflow,
          });
          const real: Real = {
            clock,
            queue,
            waiting: new Map(),
            leases: new Map(),
            given: [],
            overflows: 0,
            drained: false,
            workers: 0,
          };
          await fc.asyncModelRun(() => ({ model, real }), commands);
          await settle().run(model, real);
          await shutDown().run(model, real);
          expect([real.drained, real.waiting.size, clock.nextInMs]).toEqual([true, 0, undefined]);
        }),
        run.parameters,
      );
    },
  );
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
  const run = seededRun(300, process.env);
  it(
    `gives every request a lease that began after it, one worker a key, and drains (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(workload, async ({ requests, workers, coalesceMs, turns }) => {
          const clock = createVirtualClock();
          const backoff = { random: () => 0.5 };
          const queue = new WorkQueue<string>({ name: "test", clock, coalesceMs, backoff });
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
        run.parameters,
      );
    },
  );
});
