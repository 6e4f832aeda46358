/** Random histories of a queue, compared step by step with a model that is too simple to be wrong. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock, sleep, type VirtualClock } from "./clock.ts";
import type { Priority } from "./ready-list.ts";
import { seededRun } from "./testing/property.ts";
import {
  add,
  addAfter,
  advance,
  CAP_MS,
  done,
  dueNow,
  forget,
  leave,
  next,
  type Real,
  retry,
  settle,
  shutDown,
} from "./testing/queue-commands.ts";
import { QueueModel } from "./testing/queue-model.ts";
import { WorkQueue } from "./work-queue.ts";

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
    fc.constant(dueNow()),
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
