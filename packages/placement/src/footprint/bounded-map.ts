/** A map that drops its oldest entries beyond a number of entries or a number of bytes. */
export class BoundedMap<V> {
  readonly #entries = new Map<string, { readonly value: V; readonly bytes: number }>();
  readonly #most: { readonly entries: number; readonly bytes: number };
  #bytes = 0;

  constructor(entries: number, bytes: number = Number.POSITIVE_INFINITY) {
    this.#most = { entries, bytes };
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Like `get`, and makes the entry the newest. */
  recall(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** @param bytes size of the entry with its key. @returns whether the map dropped other entries. */
  put(key: string, value: V, bytes = 0): boolean {
    this.delete(key);
    this.#bytes += bytes;
    let isFuller = false;
    for (const oldest of this.#entries.keys()) {
      if (this.size < this.#most.entries && this.#bytes <= this.#most.bytes) break;
      this.delete(oldest);
      isFuller = true;
    }
    this.#entries.set(key, { value, bytes });
    return isFuller;
  }

  delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }

  *[Symbol.iterator](): Generator<readonly [string, V]> {
    for (const [key, { value }] of this.#entries) yield [key, value];
  }
}
