/** A node change that matters to no pod: what it costs Berth on a node full of pods, beyond the same on an empty one. */
import { setTimeout as delay } from "node:timers/promises";
import { type Furnished, labelNode } from "./deschedule-stage.ts";
import { type FootprintStage, turnOf } from "./footprint-stage.ts";
import type { MeasuredProcess } from "./process.ts";
import { type Figure, median } from "./report.ts";

/** No pod asks for it. */
const OTHER = "bench.example/other";
const BUDGET_US = 100;
/** In each block; the blocks of both kinds take turns. */
const CHANGES = 400;
/** The first pair of blocks is not counted: code is compiled. */
const PAIRS = 5;
/** What a change leaves to do is done within it. Milliseconds. */
const SETTLE_MS = 500;

export async function benchChange(
  { raw }: FootprintStage,
  berth: MeasuredProcess,
  { crowded, empty }: Furnished,
): Promise<readonly Figure[]> {
  let value = 0;
  const cpuOf = async (names: readonly string[]): Promise<number> => {
    const before = await berth.cpuMs();
    // One after the other, so that each change is told by itself.
    for (let change = 0; change < CHANGES; change++)
      await raw.send(labelNode(turnOf(names, change), OTHER, `${++value}`));
    await delay(SETTLE_MS);
    berth.ended.throwIfAborted();
    return ((await berth.cpuMs()) - before) / CHANGES;
  };
  const pairs: (readonly [full: number, bare: number])[] = [];
  for (let pair = 0; pair < PAIRS; pair++) pairs.push([await cpuOf(crowded), await cpuOf(empty)]);
  const counted = pairs.slice(1);
  const [full, bare] = [median(counted.map(([one]) => one)), median(counted.map(([, one]) => one))];
  const samples = counted.map(([one, other]) => (one - other) * 1000);
  return [
    {
      id: "deschedule-change-cpu",
      what: "a label that no pod asks for changes: CPU for the 110 pods of the node",
      value: median(samples),
      unit: "us",
      budget: BUDGET_US,
      detail: `CPU of the process for each change, ${full.toFixed(3)} ms on a node with 110 pods, ${bare.toFixed(3)} ms on one without; ${counted.length * CHANGES} of each, in turn; medians of ${counted.length} blocks`,
      samples,
    },
  ];
}
