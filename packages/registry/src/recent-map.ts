/** A map that forgets the least recently used entry when it holds more than `limit`. */
export class RecentMap<K, V> {
  readonly #limit: number;
  readonly #onForget: (value: V) => void;
  readonly #entries: Map<K, V> = new Map();

  constructor(limit: number, onForget: (value: V) => void = () => undefined) {
    this.#limit = limit;
    this.#onForget = onForget;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    for (const [oldest, forgotten] of this.#entries) {
      if (this.#entries.size <= this.#limit) return;
      this.#entries.delete(oldest);
      this.#onForget(forgotten);
    }
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  values(): Iterable<V> {
    return this.#entries.values();
  }
}
