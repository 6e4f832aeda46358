import * as fc from "fast-check";
import { expect, it } from "vitest";
import { DeadlineHeap, type HeapItem } from "./deadline-heap.ts";

interface Item extends HeapItem {
  readonly id: number;
}

const change = fc.record({
  what: fc.constantFrom("push", "remove", "pop"),
  id: fc.integer({ min: 0, max: 30 }),
  dueAt: fc.integer({ min: 0, max: 1_000 }),
});

it("DeadlineHeap always has the soonest item on top, whatever is pushed and removed", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
      const heap = new DeadlineHeap<Item>();
      const inside = new Map<number, Item>();
      for (const { what, id, dueAt } of changes) {
        const item = what === "pop" ? heap.peek() : inside.get(id);
        if (what === "push" && item === undefined) {
          const added = { id, dueAt, heapIndex: -1, heapOrder: 0 };
          inside.set(id, added);
          heap.push(added);
        } else if ((what === "remove" || what === "pop") && item !== undefined) {
          heap.remove(item);
          inside.delete(item.id);
        }
        expect(item === undefined || inside.has(item.id) === item.heapIndex >= 0).toBe(true);
        expect(heap.size).toBe(inside.size);
        const soonest = inside.size === 0 ? undefined : Math.min(...[...inside.values()].map((i) => i.dueAt));
        expect(heap.peek()?.dueAt).toBe(soonest);
      }
    }),
  );
});

it("DeadlineHeap takes the removal of an item that is not inside as nothing to do", () => {
  const heap = new DeadlineHeap<Item>();
  const item = { id: 1, dueAt: 5, heapIndex: -1, heapOrder: 0 };
  heap.remove(item);
  heap.push(item);
  heap.clear();
  heap.remove(item);
  expect([heap.size, item.heapIndex]).toEqual([0, -1]);
});
