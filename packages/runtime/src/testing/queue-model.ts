import type { Priority } from "../ready-list.ts";
import type { AddOptions } from "../work-queue.ts";

interface Key {
  /** Absent: nothing is asked for. */
  dueAt?: number;
  priority: Priority;
  leased: boolean;
  /** Among keys with one deadline the first to begin waiting comes first. */
  order: number;
  readyAt: number;
}

/** All that can be seen of a queue from outside. */
export interface QueueLook {
  /** What was given to whom since the last look: `worker key priority retries`, or `worker nothing`. */
  readonly given: readonly string[];
  readonly high: number;
  readonly low: number;
  readonly delayed: number;
  readonly leased: number;
  readonly oldestAgeMs: number;
  readonly longestRunningMs: number;
  readonly overflows: number;
  readonly drained: boolean;
}

export interface ModelTuning {
  readonly coalesceMs: number;
  readonly quietMs: number | undefined;
  readonly maxKeys: number;
}

/**
 * What `WorkQueue` promises, as plainly as it can be said: lists that are searched from one end to the other, and no
 * timer. It knows nothing of how the queue does it.
 */
export class QueueModel {
  readonly #coalesceMs: number;
  readonly #quietMs: number | undefined;
  readonly #maxKeys: number;
  readonly #keys = new Map<string, Key>();
  /** Failures in a row, the key that failed longest ago first. */
  readonly #failures = new Map<string, number>();
  /** Who was added when, the last time, the oldest first. */
  #added: { readonly name: string; readonly at: number }[] = [];
  /** Keys that are due, first in first out. */
  readonly #ready: Readonly<Record<Priority, string[]>> = { high: [], low: [] };
  /** Workers that wait, and since when each leased key is held. */
  readonly #waiting: number[] = [];
  readonly #held = new Map<string, number>();
  #given: string[] = [];
  #now = 0;
  #order = 0;
  #highInARow = 0;
  #overflows = 0;
  #overflowing = false;
  #shutDown = false;

  constructor({ coalesceMs, quietMs, maxKeys }: ModelTuning) {
    this.#coalesceMs = coalesceMs;
    this.#quietMs = quietMs;
    this.#maxKeys = maxKeys;
  }

  /** Keys that are asked for. */
  get pending(): number {
    return [...this.#keys.values()].filter(({ dueAt }) => dueAt !== undefined).length;
  }

  look(): QueueLook {
    const ready = [...this.#ready.high, ...this.#ready.low].map((name) => this.#keys.get(name));
    const free = [...this.#keys.values()].filter((key) => !key.leased && key.dueAt !== undefined);
    const given = this.#given;
    this.#given = [];
    return {
      given,
      high: this.#ready.high.length,
      low: this.#ready.low.length,
      delayed: free.length - ready.length,
      leased: this.#held.size,
      oldestAgeMs: Math.max(0, ...ready.map((key) => this.#now - (key?.readyAt ?? 0))),
      longestRunningMs: Math.max(0, ...[...this.#held.values()].map((since) => this.#now - since)),
      overflows: this.#overflows,
      drained: this.#shutDown && this.#held.size === 0,
    };
  }

  /** A request for now. `false`: refused. */
  add(name: string, { immediate = false, priority = "high" }: AddOptions): boolean {
    const wasQuiet = immediate === true || this.#noteAdd(name);
    return this.ask(name, immediate !== false && wasQuiet ? 0 : this.#coalesceMs, priority);
  }

  #noteAdd(name: string): boolean {
    const quietMs = this.#quietMs;
    if (quietMs === undefined) return false;
    const recent = this.#added.filter(({ at }) => this.#now - at < quietMs).slice(1 - this.#maxKeys);
    this.#added = [...recent.filter((one) => one.name !== name), { name, at: this.#now }];
    return this.#added.length > recent.length;
  }

  /** A request. `false`: refused. */
  ask(name: string, delayMs: number, priority: Priority): boolean {
    if (this.#shutDown) return false;
    let key = this.#keys.get(name);
    if (key === undefined) {
      if (this.#keys.size >= this.#maxKeys) {
        if (!this.#overflowing) this.#overflows++;
        this.#overflowing = true;
        return false;
      }
      this.#overflowing = false;
      key = { priority, leased: false, order: 0, readyAt: 0 };
      this.#keys.set(name, key);
    }
    const dueAt = this.#now + delayMs;
    const raised = key.dueAt !== undefined && key.priority === "low" && priority === "high";
    if (raised && this.#ready.low.includes(name)) {
      this.#ready.low.splice(this.#ready.low.indexOf(name), 1);
      this.#ready.high.push(name);
    }
    if (key.dueAt === undefined || raised) key.priority = priority;
    if (key.dueAt === undefined || dueAt < key.dueAt) {
      key.dueAt = dueAt;
      key.order = this.#order++;
    }
    this.#makeReady();
    this.#give();
    return true;
  }

  /** Counts a failure. How many there were before it. */
  fail(name: string): number {
    const before = this.#failures.get(name) ?? 0;
    this.#failures.delete(name);
    const [oldest] = this.#failures.keys();
    if (this.#failures.size >= this.#maxKeys && oldest !== undefined) this.#failures.delete(oldest);
    this.#failures.set(name, before + 1);
    return before;
  }

  forget(name: string): void {
    this.#failures.delete(name);
  }

  dueNow(): void {
    this.#failures.clear();
    for (const key of this.#keys.values()) {
      if (key.dueAt === undefined || key.dueAt <= this.#now) continue;
      key.dueAt = this.#now;
      key.order = this.#order++;
    }
    this.#makeReady();
    this.#give();
  }

  advance(ms: number): void {
    const until = this.#now + ms;
    const deadlines = (): number[] =>
      [...this.#keys.values()].flatMap(({ leased, dueAt }) =>
        leased || dueAt === undefined || dueAt <= this.#now ? [] : [dueAt],
      );
    for (let at = Math.min(...deadlines()); at <= until; at = Math.min(...deadlines())) {
      this.#now = at;
      this.#makeReady();
      this.#give();
    }
    this.#now = until;
  }

  next(worker: number): void {
    if (this.#shutDown) this.#given.push(`${worker} nothing`);
    else this.#waiting.push(worker);
    this.#give();
  }

  leave(worker: number): void {
    const index = this.#waiting.indexOf(worker);
    if (index < 0) return;
    this.#waiting.splice(index, 1);
    this.#given.push(`${worker} nothing`);
  }

  done(name: string): void {
    this.#held.delete(name);
    const key = this.#keys.get(name);
    if (key === undefined) return;
    key.leased = false;
    if (key.dueAt === undefined) this.#keys.delete(name);
    else key.order = this.#order++;
    this.#makeReady();
    this.#give();
  }

  shutDown(): void {
    if (this.#shutDown) return;
    this.#shutDown = true;
    this.#keys.clear();
    this.#ready.high.length = 0;
    this.#ready.low.length = 0;
    for (const worker of this.#waiting) this.#given.push(`${worker} nothing`);
    this.#waiting.length = 0;
  }

  /** What has become due joins its list, in order of its deadline. */
  #makeReady(): void {
    const due = [...this.#keys].filter(
      ([name, key]) =>
        !key.leased &&
        key.dueAt !== undefined &&
        key.dueAt <= this.#now &&
        !this.#ready[key.priority].includes(name),
    );
    due.sort(([, a], [, b]) => (a.dueAt ?? 0) - (b.dueAt ?? 0) || a.order - b.order);
    for (const [name, key] of due) {
      key.readyAt = this.#now;
      this.#ready[key.priority].push(name);
    }
  }

  /** High before low, but of eight in a row, while low ones wait, one is low. */
  #give(): void {
    for (;;) {
      const { high, low } = this.#ready;
      const lowIsNext = low.length > 0 && (high.length === 0 || this.#highInARow === 7);
      const name = (lowIsNext ? low : high)[0];
      if (name === undefined) return;
      const worker = this.#waiting.shift();
      if (worker === undefined) return;
      this.#highInARow = lowIsNext || low.length === 0 ? 0 : this.#highInARow + 1;
      (lowIsNext ? low : high).shift();
      this.#lend(name, worker);
    }
  }

  #lend(name: string, worker: number): void {
    const key = this.#keys.get(name);
    if (key === undefined) return;
    delete key.dueAt;
    key.leased = true;
    this.#held.set(name, this.#now);
    this.#given.push(`${worker} ${name} ${key.priority} ${this.#failures.get(name) ?? 0}`);
  }
}
