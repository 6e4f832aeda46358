/** Node footprints: patches in the life of pods, bursts, rest and restart, what foreign pods cost, bound to labelled. */
import { benchBound } from "./footprint-bound.ts";
import { benchFootprintBurst } from "./footprint-burst.ts";
import { benchLife } from "./footprint-life.ts";
import { benchFootprintMemory } from "./footprint-memory.ts";
import type { FootprintStage } from "./footprint-stage.ts";
import type { Figure } from "./report.ts";

export interface FootprintOptions {
  /** That live and end on ten nodes. */
  readonly lives: number;
  /** Of which it is measured how soon their node is labelled. */
  readonly bound: number;
  /** That no footprint looks for. */
  readonly foreign: number;
  /** Without a change; and before resident memory is read. Seconds. */
  readonly restSeconds: number;
  /** The cluster has the size that budgets are for. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

/** Bound to labelled is measured last: among all the others. */
export async function benchFootprint(
  stage: FootprintStage,
  { lives, bound, foreign, restSeconds, budgeted, onProgress }: FootprintOptions,
): Promise<readonly Figure[]> {
  return [
    ...(await benchLife(stage, { pods: lives, restSeconds, onProgress })),
    ...(await benchFootprintBurst(stage, onProgress)),
    ...(await benchFootprintMemory(stage, { pods: foreign, restSeconds, budgeted, onProgress })),
    ...(await benchBound(stage, { pods: bound, budgeted, onProgress })),
  ];
}
