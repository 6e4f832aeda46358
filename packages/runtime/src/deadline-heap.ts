/** An item of a `DeadlineHeap`. The owner sets `dueAt` while the item is outside; the heap sets the rest. */
export interface HeapItem {
  /** Monotonic milliseconds. */
  dueAt: number;
  /** Position in the heap, -1 when it is in none. */
  heapIndex: number;
  /** Order of the pushes: items with equal deadlines come out in that order. */
  heapOrder: number;
}

/** The soonest deadline first. A binary heap that knows where each item is: all changes are O(log n). */
export class DeadlineHeap<T extends HeapItem> {
  readonly #items: T[] = [];
  #pushed = 0;

  get size(): number {
    return this.#items.length;
  }

  /** The soonest item; it stays in the heap. */
  peek(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    item.heapOrder = this.#pushed++;
    this.#items.push(item);
    this.#raise(item, this.#items.length - 1);
  }

  /** Takes an item out. Does nothing when it is not in the heap. */
  remove(item: T): void {
    const index = item.heapIndex;
    const last = index < 0 ? undefined : this.#items.pop();
    item.heapIndex = -1;
    if (last === undefined || last === item) return;
    this.#place(last, index);
    this.#raise(last, index);
    this.#sink(last, last.heapIndex);
  }

  clear(): void {
    for (const item of this.#items) item.heapIndex = -1;
    this.#items.length = 0;
  }

  #place(item: T, index: number): void {
    this.#items[index] = item;
    item.heapIndex = index;
  }

  /** Moves `item` from the hole at `index` towards the root, as far as it is sooner. */
  #raise(item: T, index: number): void {
    let hole = index;
    while (hole > 0) {
      const parentIndex = (hole - 1) >> 1;
      const parent = this.#items[parentIndex];
      if (parent === undefined || !isSooner(item, parent)) break;
      this.#place(parent, hole);
      hole = parentIndex;
    }
    this.#place(item, hole);
  }

  /** Moves `item` from the hole at `index` towards the leaves, as far as a child is sooner. */
  #sink(item: T, index: number): void {
    let hole = index;
    for (;;) {
      const left = this.#items[2 * hole + 1];
      const right = this.#items[2 * hole + 2];
      const child = right !== undefined && left !== undefined && isSooner(right, left) ? right : left;
      if (child === undefined || !isSooner(child, item)) break;
      const childIndex = child.heapIndex;
      this.#place(child, hole);
      hole = childIndex;
    }
    this.#place(item, hole);
  }
}

function isSooner(a: HeapItem, b: HeapItem): boolean {
  return a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.heapOrder < b.heapOrder);
}
