/** Tells stories with a random part of their perturbations; `make perturb` tells them with all. */
import {
  describeResult,
  describeViolation,
  type Pattern,
  type PerturbationStory,
  type Point,
  perturb,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { seededRun } from "../../packages/runtime/src/testing/property.ts";
import { prepareStories } from "./berth.ts";

/** The replays of a story: one of each line. A replay takes half a second to six; `BERTH_RUNS_FACTOR` multiplies them. */
const PATTERNS: readonly (readonly Pattern[])[] = [
  ["kill-before", "kill-after"],
  ["stale", "paused"],
];
/** For a story whose waits run to their limits. */
const LIMIT_MS = 600_000;

/** Declares one test for each story. */
export function describeSampled(promise: string, stories: readonly PerturbationStory[]): void {
  const { parameters, name } = seededRun(PATTERNS.length, process.env);
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await prepareStories(await sharedTestCluster());
  });

  describe(`${promise} (${name})`, () => {
    it.each(stories)(
      "$name",
      async (story) => {
        let possible = 0;
        const choose = (points: readonly Point[]): readonly Point[] => {
          possible = points.length;
          return sample(points, parameters);
        };
        const result = await perturb(story, { cluster, choose });
        // Past vitest, which would set it apart with the name of the test above and a blank line below.
        process.stdout.write(`${describeResult(result)}\n`);
        for (const point of result.notReached)
          process.stdout.write(`perturb: ${result.story}: not reached: ${point}\n`);
        expect(result.violations.map((one) => describeViolation(result.story, one)).join("\n")).toBe("");
        // Fewer mean that the story does nothing, or that its points are no longer found.
        expect(possible).toBeGreaterThan(20);
        // A request that only a timer brings about does not come in every replay: of two, both may be such.
        expect(result.notReached.length).toBeLessThanOrEqual(Math.max(2, parameters.numRuns / 2));
      },
      LIMIT_MS,
    );
  });
}

/** As many of each. */
function sample(
  points: readonly Point[],
  { seed, numRuns }: { seed: number; numRuns: number },
): readonly Point[] {
  return PATTERNS.flatMap((patterns) => {
    const all = points.filter(({ pattern }) => patterns.includes(pattern));
    const length = Math.min(all.length, Math.ceil(numRuns / PATTERNS.length));
    const some = fc.shuffledSubarray(all, { minLength: length, maxLength: length });
    return fc.sample(some, { seed, numRuns: 1 }).flat();
  });
}
