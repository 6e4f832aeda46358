/** The harness finds each fault that it is there for, with the pattern made for it, and nothing in a right controller. */
import { beforeAll, describe, expect, it } from "vitest";
import type { TestCluster } from "../cluster.ts";
import { sharedTestCluster } from "../shared.ts";
import { describeResult, describeViolation, type PerturbResult, perturb } from "./perturb.ts";
import type { TinyFaults } from "./testing/tiny-controller.ts";
import { tinyStory } from "./testing/tiny-story.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

/** A fault costs a whole wait at each point where it shows. */
const TIMEOUT_MS = 3000;

async function replay(faults: TinyFaults, point?: string): Promise<PerturbResult> {
  const timeoutMs = Object.keys(faults).length === 0 ? 20_000 : TIMEOUT_MS;
  const result = await perturb(tinyStory(faults), { cluster, timeoutMs, ...(point && { point }) });
  console.log(describeResult(result));
  for (const v of result.violations) console.log(describeViolation("tiny", v));
  console.log(result.notReached);
  return result;
}

describe("a story told with every perturbation", () => {
  it("ends the same every time when the controller is right", async () => {
    const { replays, violations, notReached } = await replay({});
    expect(violations).toEqual([]);
    expect(notReached).toEqual([]);
    expect(replays["kill-before"]).toBeGreaterThanOrEqual(6);
    expect(replays["kill-after"]).toBe(replays["kill-before"]);
    expect(replays.stale).toBeGreaterThanOrEqual(20);
    expect(replays.paused).toBeGreaterThanOrEqual(8);
  });

  it("shows an unguarded write on an older view", async () => {
    const { violations } = await replay({ unguarded: true });
    expect(violations.map(({ point }) => point.split(" ")[0])).toContain("stale");
  });

  it("shows ownership that is kept in memory only, by a restart", async () => {
    const { violations } = await replay({ forgetful: true });
    expect(violations.map(({ point }) => point.split(" ")[0])).toContain("kill-after");
  });

  it("shows what is missed by a list after a lost watch", async () => {
    const { violations } = await replay({ looksNotBack: true });
    expect(violations.map(({ point }) => point.split(" ")[0])).toContain("paused");
  });
});
