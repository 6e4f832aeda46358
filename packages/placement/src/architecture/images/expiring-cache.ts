import type { Clock } from "@berth/runtime";

interface ExpiringCacheOptions {
  readonly clock: Pick<Clock, "monotonic">;
  readonly ttlMs: number;
  readonly maxEntries: number;
  /** The limit for all entries together, in the unit of `set`. */
  readonly maxWeight: number;
}

/** A cache whose values expire. Bounded: it drops the oldest value first. */
export class ExpiringCache<V> {
  readonly #options: ExpiringCacheOptions;
  /** In the order of `set`, which is also the order of expiry. */
  readonly #entries = new Map<string, { value: V; weight: number; untilMs: number }>();
  #weight = 0;

  constructor(options: ExpiringCacheOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** `undefined` if the key has no value, or the value has expired. */
  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (this.#options.clock.monotonic() < entry.untilMs) return entry.value;
    this.delete(key);
    return undefined;
  }

  /** Does not keep a value that is heavier than `maxWeight`. */
  set(key: string, value: V, weight: number): void {
    this.delete(key);
    const { clock, ttlMs, maxEntries, maxWeight } = this.#options;
    if (weight > maxWeight) return;
    const nowMs = clock.monotonic();
    this.#entries.set(key, { value, weight, untilMs: nowMs + ttlMs });
    this.#weight += weight;
    for (const [oldest, { untilMs }] of this.#entries) {
      const isOver = this.#entries.size > maxEntries || this.#weight > maxWeight;
      if (!isOver && nowMs < untilMs) break;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#weight -= entry.weight;
  }
}
