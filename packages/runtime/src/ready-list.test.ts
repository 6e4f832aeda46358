import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HIGH_IN_A_ROW, type Priority, ReadyList, type ReadySlot } from "./ready-list.ts";

function takeAll(list: ReadyList<string>): string[] {
  const taken: string[] = [];
  for (let value = list.take(); value !== undefined; value = list.take()) taken.push(value);
  return taken;
}

/** Takes one and tells its priority; a value that was not waiting is a failure. */
function takeOne(list: ReadyList<number>, waiting: Map<number, ReadySlot<number>>): Priority | undefined {
  const value = list.take();
  const slot = value === undefined ? undefined : waiting.get(value);
  if ((slot === undefined) !== (waiting.size === 0)) throw new Error(`took ${value}, which was not waiting`);
  if (value !== undefined) waiting.delete(value);
  return slot?.priority;
}

describe("ReadyList", () => {
  it("serves low work at least every eighth time while high work never ends", () => {
    const list = new ReadyList<string>();
    list.push("low", "low");
    for (let i = 0; i < 20; i++) list.push(`h${i}`, "high");
    expect(takeAll(list).indexOf("low")).toBe(HIGH_IN_A_ROW);
  });

  it("loses nothing and bounds the starvation of low, whatever is pushed, raised and taken", () => {
    const step = fc.oneof(
      fc.constantFrom<Priority>("high", "low").map((priority) => ({ what: "push" as const, priority })),
      fc.nat(20).map((index) => ({ what: "raise" as const, index })),
      fc.constant({ what: "take" as const }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const list = new ReadyList<number>();
        const waiting = new Map<number, ReadySlot<number>>();
        let [pushed, highInARow] = [0, 0];
        for (const step of steps) {
          if (step.what === "push") waiting.set(pushed, list.push(pushed++, step.priority));
          if (step.what === "raise") {
            const slot = [...waiting.values()][step.index];
            if (slot !== undefined) list.raise(slot);
          }
          const lowWaits = list.depth("low") > 0;
          const taken = step.what === "take" ? takeOne(list, waiting) : undefined;
          if (step.what === "take") highInARow = lowWaits && taken === "high" ? highInARow + 1 : 0;
          expect(highInARow).toBeLessThanOrEqual(HIGH_IN_A_ROW);
          expect([...list].sort((a, b) => a - b)).toEqual([...waiting.keys()].sort((a, b) => a - b));
        }
      }),
    );
  });
});
