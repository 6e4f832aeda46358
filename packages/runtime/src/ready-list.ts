/**
 * `low` is for work that may wait behind live events: the initial sync of a large cluster. `high` is everything else.
 */
export type Priority = "high" | "low";

/**
 * While low work waits, at least every eighth item taken is low. So an initial sync makes progress under any stream of
 * live events, and live events are hardly delayed.
 */
export const HIGH_IN_A_ROW = 7;

/** A place in the list; the list keeps it, its holder gives it back to `raise` or `remove`. */
export interface ReadySlot<T> {
  readonly value: T;
  readonly priority: Priority;
}

interface Slot<T> extends ReadySlot<T> {
  priority: Priority;
  previous: Slot<T> | undefined;
  next: Slot<T> | undefined;
}

/** Two first-in-first-out lists, high before low, with bounded starvation of low. Every change is O(1). */
export class ReadyList<T> {
  readonly #high = new LinkedList<T>();
  readonly #low = new LinkedList<T>();
  #highInARow = 0;

  push(value: T, priority: Priority): ReadySlot<T> {
    const slot: Slot<T> = { value, priority, previous: undefined, next: undefined };
    this.#listOf(priority).append(slot);
    return slot;
  }

  /** Moves a low slot behind the high ones. A high slot stays where it is. */
  raise(slot: ReadySlot<T>): void {
    const own = slot as Slot<T>;
    if (own.priority === "high") return;
    this.#low.remove(own);
    own.priority = "high";
    this.#high.append(own);
  }

  /** Takes the next value out. */
  take(): T | undefined {
    const lowIsDue = this.#low.size > 0 && (this.#high.size === 0 || this.#highInARow >= HIGH_IN_A_ROW);
    const list = lowIsDue ? this.#low : this.#high;
    const slot = list.first;
    if (slot === undefined) return undefined;
    list.remove(slot);
    this.#highInARow = lowIsDue || this.#low.size === 0 ? 0 : this.#highInARow + 1;
    return slot.value;
  }

  depth(priority: Priority): number {
    return this.#listOf(priority).size;
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (const list of [this.#high, this.#low]) {
      for (let slot = list.first; slot !== undefined; slot = slot.next) yield slot.value;
    }
  }

  clear(): void {
    this.#high.clear();
    this.#low.clear();
  }

  #listOf(priority: Priority): LinkedList<T> {
    return priority === "high" ? this.#high : this.#low;
  }
}

/** A `Map` would slow down as a queue: V8 skips deleted entries at its front one by one. */
class LinkedList<T> {
  first: Slot<T> | undefined;
  #last: Slot<T> | undefined;
  size = 0;

  append(slot: Slot<T>): void {
    slot.previous = this.#last;
    slot.next = undefined;
    if (this.#last === undefined) this.first = slot;
    else this.#last.next = slot;
    this.#last = slot;
    this.size++;
  }

  remove(slot: Slot<T>): void {
    if (slot.previous === undefined) this.first = slot.next;
    else slot.previous.next = slot.next;
    if (slot.next === undefined) this.#last = slot.previous;
    else slot.next.previous = slot.previous;
    this.size--;
  }

  clear(): void {
    this.first = undefined;
    this.#last = undefined;
    this.size = 0;
  }
}
