/** The short stories of the labels, with every perturbation. `make perturb` tells the long ones as well. */
import { describeResult, describeViolation, perturb, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startStoryCluster } from "./berth.ts";
import { labelsFolder } from "./labels.ts";
import { labelsRules } from "./rules.ts";

/** Each wait has a limit by itself; beside many other tests the whole takes minutes. */
const LIMIT_MS = 600_000;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startStoryCluster();
});
afterAll(() => cluster[Symbol.asyncDispose]());

it.each([
  { story: labelsFolder },
  // `make perturb` restarts it on views of any age.
  { story: labelsRules, oldestView: 1 },
])(
  "labels nodes the same however it is killed, kept behind, or left without events: $story.name",
  async ({ story, ...options }) => {
    const result = await perturb(story, { cluster, ...options });
    // Past vitest, which would set it apart with the name of the test above and a blank line below.
    process.stdout.write(`${describeResult(result)}\n`);
    for (const point of result.notReached)
      process.stdout.write(`perturb: ${story.name}: not reached: ${point}\n`);
    expect(result.violations.map((one) => describeViolation(result.story, one)).join("\n")).toBe("");
    const counts = Object.values(result.replays);
    for (const count of counts) expect(count).toBeGreaterThan(6);
    // What only a timer brings about does not come in every telling.
    expect(result.notReached.length).toBeLessThan(counts.reduce((sum, one) => sum + one) / 10);
  },
  LIMIT_MS,
);
