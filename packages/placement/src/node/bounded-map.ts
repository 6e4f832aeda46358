import type { Clock } from "@berth/runtime";

interface BoundedMapOptions {
  readonly maxEntries: number;
  /** The limit for all entries together, in the unit of `set`. Default none. */
  readonly maxWeight?: number;
  /** How long a value counts. Default for ever. */
  readonly expiry?: { readonly clock: Pick<Clock, "monotonic">; readonly ttlMs: number };
}

interface Entry<V> {
  readonly value: V;
  readonly weight: number;
  readonly untilMs: number;
}

/** A map that drops its oldest entries beyond a number of entries or a weight, and what has expired. */
export class BoundedMap<V> {
  /** In the order of `set`, which is also the order of expiry. */
  readonly #entries = new Map<string, Entry<V>>();
  readonly #options: BoundedMapOptions;
  #weight = 0;

  constructor(options: BoundedMapOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || this.#nowMs() < entry.untilMs) return entry?.value;
    this.delete(key);
    return undefined;
  }

  /** Like `get`, and makes the entry the newest. Not for values that expire. */
  recall(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Does not keep a value that is heavier than `maxWeight`. @returns whether the map dropped other entries. */
  set(key: string, value: V, weight = 0): boolean {
    const { maxEntries, maxWeight = Number.POSITIVE_INFINITY, expiry } = this.#options;
    this.delete(key);
    if (weight > maxWeight) return false;
    const nowMs = this.#nowMs();
    let isFuller = false;
    for (const [oldest, { untilMs }] of this.#entries) {
      const isOver = this.size >= maxEntries || this.#weight + weight > maxWeight;
      if (!isOver && nowMs < untilMs) break;
      this.delete(oldest);
      isFuller = true;
    }
    this.#entries.set(key, { value, weight, untilMs: nowMs + (expiry?.ttlMs ?? Number.POSITIVE_INFINITY) });
    this.#weight += weight;
    return isFuller;
  }

  delete(key: string): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0;
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#weight = 0;
  }

  *[Symbol.iterator](): Generator<readonly [string, V]> {
    for (const [key, { value }] of this.#entries) yield [key, value];
  }

  #nowMs(): number {
    return this.#options.expiry?.clock.monotonic() ?? 0;
  }
}
