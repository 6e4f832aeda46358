/** The short story of the startup gates, with every perturbation. `make perturb` tells the long ones as well. */
import { describeResult, describeViolation, perturb, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startStoryCluster } from "./berth.ts";
import { gatesHeld } from "./gates.ts";

/** Each wait has a limit by itself; beside many other tests the whole takes minutes. */
const LIMIT_MS = 600_000;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startStoryCluster();
});
afterAll(() => cluster[Symbol.asyncDispose]());

it(
  "gates hold and let go of nodes the same however they are killed, kept behind, or left without events",
  async () => {
    const result = await perturb(gatesHeld, { cluster });
    // Past vitest, which would set it apart with the name of the test above and a blank line below.
    process.stdout.write(`${describeResult(result)}\n`);
    for (const point of result.notReached)
      process.stdout.write(`perturb: ${result.story}: not reached: ${point}\n`);
    expect(result.violations.map((one) => describeViolation(result.story, one)).join("\n")).toBe("");
    const { "kill-before": killed, paused } = result.replays;
    expect(killed).toBeGreaterThan(6);
    expect(paused).toBeGreaterThan(6);
    // What only a timer brings about does not come in every telling.
    expect(result.notReached.length).toBeLessThan((2 * killed + paused) / 10);
  },
  LIMIT_MS,
);
