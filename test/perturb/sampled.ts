/** Tells stories with a random part of their perturbations; `make perturb` tells them with all. */
import {
  describeResult,
  describeViolation,
  type PerturbationStory,
  type Point,
  patterns,
  perturb,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { seededRun } from "../../packages/runtime/src/testing/property.ts";
import { prepareStories } from "./berth.ts";

/** Replays of one story, one of each pattern. Each takes half a second to two; `BERTH_RUNS_FACTOR` multiplies them. */
const REPLAYS = patterns.length;
/** For a story whose waits run to their limits. */
const LIMIT_MS = 600_000;

/** Declares one test for each story. */
export function describeSampled(promise: string, stories: readonly PerturbationStory[]): void {
  const { parameters, name } = seededRun(REPLAYS, process.env);
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
        // A request that only a timer brings about does not come in every replay.
        expect(result.notReached.length).toBeLessThanOrEqual(parameters.numRuns / 2);
      },
      LIMIT_MS,
    );
  });
}

/** As many of each pattern. */
function sample(
  points: readonly Point[],
  { seed, numRuns }: { seed: number; numRuns: number },
): readonly Point[] {
  return patterns.flatMap((pattern) => {
    const all = points.filter((point) => point.pattern === pattern);
    const length = Math.min(all.length, Math.ceil(numRuns / patterns.length));
    const some = fc.shuffledSubarray(all, { minLength: length, maxLength: length });
    return fc.sample(some, { seed, numRuns: 1 }).flat();
  });
}
