/** The short story of the labels, with every perturbation. `make perturb` tells the long ones as well. */
import { describeResult, describeViolation, perturb, startTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { labelsFolder } from "./labels.ts";

it("labels nodes the same however it is killed, kept behind, or left without events", async () => {
  await using cluster = await startTestCluster();
  const result = await perturb(labelsFolder, { cluster });
  console.log(describeResult(result));
  expect(result.violations.map((one) => describeViolation(result.story, one)).join("\n")).toBe("");
  const { replays, notReached } = result;
  if (notReached.length > 0) console.log(`not reached:\n${notReached.join("\n")}`);
  const counts = Object.values(replays);
  for (const count of counts) expect(count).toBeGreaterThan(6);
  // What only a timer brings about does not come in every telling.
  expect(notReached.length).toBeLessThan(counts.reduce((sum, one) => sum + one) / 10);
});
