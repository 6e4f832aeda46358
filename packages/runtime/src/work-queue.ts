import { type BackoffOptions, KeyedBackoff } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import { DeadlineHeap, type HeapItem } from "./deadline-heap.ts";
import { type ObjectKey, type QueueKey, toQueueText } from "./key.ts";
import type { MetricsRegistry } from "./metrics.ts";
import { declareQueueMetrics, type QueueMetrics } from "./queue-metrics.ts";
import { type Priority, ReadyList, type ReadySlot } from "./ready-list.ts";

/** The delays of a queue, and its capacity. */
export interface QueueTuning {
  /**
   * A key becomes available this long after its first `add`; adds meanwhile change nothing, so a burst is one
   * reconcile and a steady stream cannot postpone it. Milliseconds, default 0.
   */
  readonly coalesceMs?: number;
  /**
   * An `add` that is `immediate: "ifQuiet"` does not wait for `coalesceMs` when no `add` asked for its key for this
   * long: the first change is answered at once, and those that follow it are one reconcile. Milliseconds, default: never.
   */
  readonly quietMs?: number;
  /** Distinct keys held, default 1,000,000. Deduplication keeps a queue near the number of objects: far below. */
  readonly maxKeys?: number;
  readonly backoff?: BackoffOptions;
}

/** Options of a queue. */
export interface WorkQueueOptions<K extends QueueKey> extends QueueTuning {
  /** The `controller` label of the metrics. */
  readonly name: string;
  readonly clock: Clock;
  /** Equal for equal keys and only for these. Default: `toKeyText`, and a text key is its own text. */
  readonly toText?: (key: K) => string;
  readonly metrics?: MetricsRegistry;
  /**
   * Called for the first refused key since the queue last had room. Without it `add` throws `RangeError` instead,
   * because a refused key is lost work and must not go unnoticed.
   */
  readonly onOverflow?: (key: K, maxKeys: number) => void;
}

/** The urgency of a key. */
export interface AddOptions {
  /** Default `high`. A key already waiting at `low` is raised, and never lowered. */
  readonly priority?: Priority;
  /** Skips `coalesceMs`: `true` when no burst is expected, `ifQuiet` when none is under way. Default false. */
  readonly immediate?: boolean | "ifQuiet";
}

/** The shortest wait of a failed key. */
export interface RetryOptions extends AddOptions {
  /** Replaces the base of the backoff for this wait. */
  readonly baseMs?: number;
  /** Waits at least this long: the server's own `Retry-After`. */
  readonly atLeastMs?: number;
}

/** The right to work on one key. No other worker gets the key until `done`; `using lease = ...` calls it. */
export interface Lease<K> extends Disposable {
  readonly key: K;
  /** The priority that the key was taken at. */
  readonly priority: Priority;
  /** Calls of `retry` for this key since it was forgotten. */
  readonly retries: number;
  /** Gives the key back. Further calls do nothing. */
  done(): void;
}

interface Entry<K> extends HeapItem {
  readonly key: K;
  readonly text: string;
  /** Priority of the pending request. It has no meaning when nothing is pending. */
  priority: Priority;
  pending: boolean;
  /** Present while it waits for a worker. */
  slot: ReadySlot<Entry<K>> | undefined;
  leased: boolean;
  readyAt: number;
  leasedAt: number;
}

type Give<K> = (lease?: Lease<K>) => void;

/**
 * A keyed queue for level-based work: it holds which keys to look at, not what happened to them.
 *
 * - One key waits at most once, and is leased to at most one worker. A key added while leased is due again after
 *   `done`.
 * - A key has one pending time, the soonest that was asked for. `add` means now (plus `coalesceMs`).
 * - A lease answers every request made before it. The delay that a reconcile asks for replaces any older one. A
 *   reconcile that asks for none has settled the key. A request made during a lease stays pending.
 * - Keys come first in, first out, `high` before `low`, with bounded starvation of `low` (`ReadyList`).
 *
 * Deadlines are one heap and one timer of the clock, so that a change costs O(log n) for n delayed keys.
 */
export class WorkQueue<K extends QueueKey = ObjectKey> {
  readonly #clock: Clock;
  readonly #toText: (key: K) => string;
  readonly #coalesceMs: number;
  readonly #quietMs: number | undefined;
  readonly #maxKeys: number;
  readonly #onOverflow: ((key: K, maxKeys: number) => void) | undefined;
  readonly #backoff: KeyedBackoff;
  readonly #metrics: QueueMetrics | undefined;

  /** Every key that is pending or leased. */
  readonly #entries = new Map<string, Entry<K>>();
  readonly #delayed = new DeadlineHeap<Entry<K>>();
  readonly #ready = new ReadyList<Entry<K>>();
  readonly #leased = new Set<Entry<K>>();
  /** Workers waiting for a key. Never any while a key is ready. */
  readonly #waiters = new Set<Give<K>>();
  readonly #drained = Promise.withResolvers<void>();
  /** When `add` last requested each key, monotonic ms, oldest first. Only the last `quietMs`; else empty. */
  readonly #addedAt = new Map<string, number>();
  #timer: Disposable | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #overflowing = false;
  #shutDown = false;

  constructor(options: WorkQueueOptions<K>) {
    this.#clock = options.clock;
    this.#toText = options.toText ?? toQueueText;
    this.#coalesceMs = options.coalesceMs ?? 0;
    this.#quietMs = options.quietMs;
    this.#maxKeys = options.maxKeys ?? 1_000_000;
    this.#onOverflow = options.onOverflow;
    this.#backoff = new KeyedBackoff({ ...options.backoff, maxKeys: this.#maxKeys });
    this.#metrics = options.metrics && declareQueueMetrics(options.metrics, options.name, this);
  }

  /** Requests the key after `coalesceMs`, or now if `immediate`. `false` when the queue is shut down or full. */
  add(key: K, { immediate = false, priority = "high" }: AddOptions = {}): boolean {
    const wasQuiet = immediate === true || this.#noteAdd(key);
    return this.#request(key, immediate !== false && wasQuiet ? 0 : this.#coalesceMs, priority);
  }

  /**
   * Requests the key after `delayMs` (0 and less: now). Never postpones a sooner request. Otherwise as `add`.
   * @throws RangeError when `delayMs` is not finite: such a key would never become due.
   */
  addAfter(key: K, delayMs: number, options: AddOptions = {}): boolean {
    if (!Number.isFinite(delayMs))
      throw new RangeError(`a delay must be finite milliseconds, got ${delayMs}`);
    return this.#request(key, Math.max(0, delayMs), options.priority ?? "high");
  }

  /** Counts a failure of the key and requests it after its backoff. Returns the wait, ms. Call it before `done`. */
  retry(key: K, options: RetryOptions = {}): number {
    const delayMs = Math.max(this.#backoff.next(this.#toText(key), options.baseMs), options.atLeastMs ?? 0);
    this.#metrics?.retried();
    this.addAfter(key, delayMs, options);
    return delayMs;
  }

  /** The key succeeded: its next failure is its first. Pending requests stay. */
  forget(key: K): void {
    this.#backoff.forget(this.#toText(key));
  }

  /** Every pending key is due now, and no failure counts any more: what they waited for has happened. */
  dueNow(): void {
    this.#backoff.clear();
    const now = this.#clock.monotonic();
    for (const entry of this.#entries.values()) if (entry.pending) this.#hasten(entry, now, entry.priority);
    this.#dispatch();
  }

  /** The next key, as soon as there is one. `undefined` when `signal` aborts or the queue is shut down. */
  next(signal?: AbortSignal): Promise<Lease<K> | undefined> {
    if (this.#shutDown || signal?.aborted) return Promise.resolve(undefined);
    const lease = this.#take();
    if (lease !== undefined) return Promise.resolve(lease);
    return new Promise((resolve) => {
      const give: Give<K> = (lease) => {
        this.#waiters.delete(give);
        signal?.removeEventListener("abort", leave);
        resolve(lease);
      };
      const leave = (): void => give();
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiters.add(give);
    });
  }

  /**
   * Drops waiting keys, refuses new keys, and ends every `next`. Resolves when the last lease is done. A stuck worker
   * prevents that, so the caller sets a limit. Level-based work needs no more than this, because the next start lists
   * every object again.
   */
  shutDown(): Promise<void> {
    if (this.#shutDown) return this.#drained.promise;
    this.#shutDown = true;
    this.#timer?.[Symbol.dispose]();
    this.#delayed.clear();
    this.#ready.clear();
    this.#entries.clear();
    for (const give of this.#waiters) give();
    if (this.#leased.size === 0) this.#drained.resolve();
    return this.#drained.promise;
  }

  /** Keys that are due and wait for a worker. */
  get length(): number {
    return this.depth("high") + this.depth("low");
  }

  /** Keys that wait for their time. */
  get delayed(): number {
    return this.#delayed.size;
  }

  /** Keys that a worker holds. */
  get leased(): number {
    return this.#leased.size;
  }

  /** Of `length`, how many at this priority. */
  depth(priority: Priority): number {
    return this.#ready.depth(priority);
  }

  /** Age of the key that is due longest, ms; 0 when none waits. Scans every waiting key. */
  get oldestAgeMs(): number {
    const now = this.#clock.monotonic();
    let oldest = now;
    for (const entry of this.#ready) oldest = Math.min(oldest, entry.readyAt);
    return now - oldest;
  }

  /** Age of the oldest lease, ms; 0 without a lease. */
  get longestRunningMs(): number {
    for (const first of this.#leased) return this.#clock.monotonic() - first.leasedAt;
    return 0;
  }

  /** Returns whether the key was quiet until now. */
  #noteAdd(key: K): boolean {
    if (this.#quietMs === undefined) return false;
    const now = this.#clock.monotonic();
    for (const [oldest, addedAt] of this.#addedAt) {
      if (now - addedAt < this.#quietMs && this.#addedAt.size < this.#maxKeys) break;
      this.#addedAt.delete(oldest);
    }
    const text = this.#toText(key);
    const wasQuiet = !this.#addedAt.delete(text);
    this.#addedAt.set(text, now);
    return wasQuiet;
  }

  #request(key: K, delayMs: number, priority: Priority): boolean {
    if (this.#shutDown) return false;
    const dueAt = this.#clock.monotonic() + delayMs;
    const text = this.#toText(key);
    const entry = this.#entries.get(text) ?? this.#admit(key, text);
    if (entry === undefined) return false;
    if (entry.pending) this.#hasten(entry, dueAt, priority);
    else this.#plan(entry, dueAt, priority);
    this.#dispatch();
    return true;
  }

  /** A new entry, or `undefined` when there is no room. */
  #admit(key: K, text: string): Entry<K> | undefined {
    if (this.#entries.size >= this.#maxKeys) {
      this.#refuse(key);
      return undefined;
    }
    this.#overflowing = false;
    const entry: Entry<K> = {
      key,
      text,
      priority: "low",
      pending: false,
      slot: undefined,
      leased: false,
      readyAt: 0,
      leasedAt: 0,
      dueAt: 0,
      heapIndex: -1,
      heapOrder: 0,
    };
    this.#entries.set(text, entry);
    return entry;
  }

  #refuse(key: K): void {
    this.#metrics?.refused();
    if (this.#onOverflow === undefined) {
      throw new RangeError(`the work queue is full: it holds ${this.#maxKeys} keys`);
    }
    if (this.#overflowing) return;
    this.#overflowing = true;
    this.#onOverflow(key, this.#maxKeys);
  }

  /** Plans the first request since the last lease of the key. */
  #plan(entry: Entry<K>, dueAt: number, priority: Priority): void {
    entry.pending = true;
    entry.priority = priority;
    entry.dueAt = dueAt;
    this.#metrics?.added();
    if (!entry.leased) this.#place(entry);
  }

  /** Merges a further request: the sooner time and the higher priority win. */
  #hasten(entry: Entry<K>, dueAt: number, priority: Priority): void {
    if (priority === "high" && entry.priority === "low") {
      entry.priority = "high";
      if (entry.slot !== undefined) this.#ready.raise(entry.slot);
    }
    if (dueAt >= entry.dueAt || entry.slot !== undefined) return;
    if (entry.leased) {
      entry.dueAt = dueAt;
      return;
    }
    this.#delayed.remove(entry);
    entry.dueAt = dueAt;
    this.#place(entry);
  }

  /** Puts a pending entry without a lease into the ready list or the heap. */
  #place(entry: Entry<K>): void {
    const now = this.#clock.monotonic();
    if (entry.dueAt <= now) {
      entry.readyAt = now;
      entry.slot = this.#ready.push(entry, entry.priority);
    } else {
      this.#delayed.push(entry);
      this.#arm(now);
    }
  }

  /** Keeps one timer, at or before the soonest deadline. */
  #arm(now: number): void {
    const soonest = this.#delayed.peek();
    if (soonest === undefined || soonest.dueAt >= this.#timerAt) return;
    this.#timer?.[Symbol.dispose]();
    this.#timerAt = soonest.dueAt;
    this.#timer = this.#clock.schedule(soonest.dueAt - now, () => this.#onTimer());
  }

  /** A timer may fire early, by rounding or because its key was requested sooner. Then it is set again. */
  #onTimer(): void {
    this.#timer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    const now = this.#clock.monotonic();
    for (
      let entry = this.#delayed.peek();
      entry !== undefined && entry.dueAt <= now;
      entry = this.#delayed.peek()
    ) {
      this.#delayed.remove(entry);
      this.#place(entry);
    }
    this.#arm(now);
    // Dispatch only now, so that high keys go first among keys that fell due together.
    this.#dispatch();
  }

  #dispatch(): void {
    for (const give of this.#waiters) {
      const lease = this.#take();
      if (lease === undefined) return;
      give(lease);
    }
  }

  #take(): Lease<K> | undefined {
    const entry = this.#ready.take();
    if (entry === undefined) return undefined;
    entry.slot = undefined;
    entry.pending = false;
    entry.leased = true;
    entry.leasedAt = this.#clock.monotonic();
    this.#leased.add(entry);
    this.#metrics?.waited(entry.leasedAt - entry.readyAt);
    let held = true;
    const done = (): void => {
      if (held) this.#release(entry);
      held = false;
    };
    const retries = this.#backoff.failures(entry.text);
    return { key: entry.key, priority: entry.priority, retries, done, [Symbol.dispose]: done };
  }

  #release(entry: Entry<K>): void {
    entry.leased = false;
    this.#leased.delete(entry);
    if (this.#shutDown) {
      if (this.#leased.size === 0) this.#drained.resolve();
    } else if (entry.pending) {
      this.#place(entry);
      this.#dispatch();
    } else {
      this.#entries.delete(entry.text);
    }
  }
}
