/** What is done to a queue and to its model, which then have to look the same. */
import type * as fc from "fast-check";
import { expect } from "vitest";
import type { VirtualClock } from "../clock.ts";
import type { Priority } from "../ready-list.ts";
import type { AddOptions, Lease, RetryOptions, WorkQueue } from "../work-queue.ts";
import type { QueueModel } from "./queue-model.ts";

/** The most a wait of the queue under test can be; its base is the default. */
export const CAP_MS = 800;

export interface Real {
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

export type Command = fc.AsyncCommand<QueueModel, Real>;

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

export const add = (name: string, options: AddOptions): Command =>
  command(`add(${name}, ${JSON.stringify(options)})`, (model, { queue }) => {
    expect(queue.add(name, options)).toBe(model.add(name, options));
  });

export const addAfter = (name: string, delayMs: number, priority: Priority): Command =>
  command(`addAfter(${name}, ${delayMs}, ${priority})`, (model, { queue }) => {
    expect(queue.addAfter(name, delayMs, { priority })).toBe(model.ask(name, Math.max(0, delayMs), priority));
  });

export const retry = (name: string, options: RetryOptions): Command =>
  command(`retry(${name}, ${JSON.stringify(options)})`, (model, { queue }) => {
    const { baseMs = 50, atLeastMs = 0, priority = "high" } = options;
    const delayMs = Math.max(atLeastMs, Math.min(CAP_MS, baseMs * 2 ** model.fail(name)) / 2);
    model.ask(name, delayMs, priority);
    expect(queue.retry(name, options)).toBe(delayMs);
  });

export const forget = (name: string): Command =>
  command(`forget(${name})`, (model, { queue }) => {
    model.forget(name);
    queue.forget(name);
  });

export const dueNow = (): Command =>
  command("dueNow()", (model, { queue }) => {
    model.dueNow();
    queue.dueNow();
  });

export const advance = (ms: number): Command =>
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
export const next = (patient: boolean): Command =>
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

export const leave = (index: number): Command =>
  command(`leave(${index})`, (model, { waiting }) => {
    const [worker, leaving] = [...waiting][index % Math.max(1, waiting.size)] ?? [];
    if (worker === undefined) return;
    leaving?.abort();
    model.leave(worker);
  });

export const done = (index: number, twice: boolean): Command =>
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

export const shutDown = (): Command =>
  command("shutDown()", (model, real) => {
    model.shutDown();
    void noteDrained(real);
  });

/** Carries out what is left to do: all that was asked for comes, and then there is nothing. */
export const settle = (): Command =>
  command("settle", async (model, real) => {
    for (let round = 0; round < 100 && (model.pending > 0 || real.leases.size > 0); round++) {
      await done(0, false).run(model, real);
      await next(true).run(model, real);
      await advance(100).run(model, real);
    }
    expect([real.queue.length, real.queue.delayed, real.queue.leased]).toEqual([0, 0, 0]);
  });
