/** The short story of footprints, with every perturbation, and others with some. `make perturb` tells all of them whole. */
import {
  describeResult,
  describeViolation,
  type PerturbationStory,
  type PerturbOptions,
  perturb,
  type TestCluster,
} from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startStoryCluster } from "./berth.ts";
import { footprintHoldEnds, footprintNeeded } from "./footprint.ts";
import { footprintPools } from "./footprint-pools.ts";

/** 52 to 130 s each on two cores beside much other work; beside more it takes several minutes. Each wait has a limit by itself. */
const LIMIT_MS = 600_000;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startStoryCluster();
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

interface Told extends Pick<PerturbOptions, "patterns"> {
  readonly story: PerturbationStory;
}

it.each<Told>([
  { story: footprintNeeded },
  // `make perturb` tells the rest of these.
  { story: footprintHoldEnds, patterns: ["kill-after"] },
  { story: footprintPools, patterns: ["kill-after"] },
])(
  "nodes carry label and claims by their pods however Berth is killed, kept behind, or left without events: $story.name",
  async ({ story, ...options }) => {
    const result = await perturb(story, { cluster, ...options });
    // Past vitest, which would set it apart with the name of the test above and a blank line below.
    process.stdout.write(`${describeResult(result)}\n`);
    for (const point of result.notReached)
      process.stdout.write(`perturb: ${result.story}: not reached: ${point}\n`);
    expect(result.violations.map((one) => describeViolation(result.story, one)).join("\n")).toBe("");
    const replays = Object.values(result.replays).reduce((sum, one) => sum + one);
    expect(replays).toBeGreaterThan(20);
    // What only a timer brings about does not come in every telling, and is much of the requests alone.
    expect(result.notReached.length).toBeLessThan(replays / 8);
  },
  LIMIT_MS,
);
