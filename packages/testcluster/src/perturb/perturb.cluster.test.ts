/** The harness finds each fault that it is there for, with the pattern made for it, and nothing in a right controller. */
import { describe, expect, it } from "vitest";
import { sharedTestCluster } from "../shared.ts";
import {
  describeResult,
  describeViolation,
  type PerturbOptions,
  type PerturbResult,
  perturb,
} from "./perturb.ts";
import type { Pattern, Point } from "./point.ts";
import { guidedStory } from "./testing/guided-story.ts";
import type { TinyFaults } from "./testing/tiny-controller.ts";
import { tinyStory } from "./testing/tiny-story.ts";

const cluster = await sharedTestCluster();

/** One in so many of all points is told: each takes a second. */
const SHARE = 4;

/** A fault may cost a whole wait; what is right takes a fraction of it. */
const FAULT_TIMEOUT_MS = 4000;

describe("a story told with every perturbation", () => {
  it("ends the same every time when the controller is right", async () => {
    let all: readonly Point[] = [];
    const choose = (points: readonly Point[]): readonly Point[] => {
      all = points;
      return points.filter((_, at) => at % SHARE === 0);
    };
    const result = await perturb(tinyStory(), { cluster, choose });
    const { violations, notReached } = result;
    expect(violations).toEqual([]);
    expect(notReached).toEqual([]);
    // A list, a watch and four patches; nine versions, seen after each of five steps; their nine events, less the
    // first, which is listed.
    const found = Object.entries(Object.groupBy(all, ({ pattern }) => pattern));
    expect(Object.fromEntries(found.map(([pattern, points]) => [pattern, points.length]))).toEqual({
      "kill-before": 6,
      "kill-after": 6,
      stale: 25,
      paused: 8,
    });
    expect(describeResult(result)).toMatch(
      /^perturb: tiny: 12 replays \(2 kill-before, .*\), 0 violations, 0 not reached, \d+ s$/,
    );
  });

  it.each<readonly [string, TinyFaults, Pattern, RegExp]>([
    ["an unguarded write by an older view", { unguarded: true }, "stale", /without a reason/],
    ["ownership kept in memory by a restart", { forgetful: true }, "kill-after", /does not (end|answer)/],
    [
      "what a list after a lost watch leaves out by a pause",
      { looksNotBack: true },
      "paused",
      /does not end as undisturbed/,
    ],
  ])("shows %s", async (_fault, faults, pattern, problem) => {
    const found = await firstViolation(faults, {
      choose: (points) => points.filter((point) => point.pattern === pattern),
    });
    expect(found.violations).toHaveLength(1);
    const [violation] = found.violations;
    const { point = "", problems = [], history = [] } = violation ?? {};
    expect(problems.join("\n")).toMatch(problem);
    expect(history.length).toBeGreaterThan(3);

    // What a fault does with a race, it does not do every time.
    let again = await firstViolation(faults, { point });
    for (let more = 12; more > 0 && again.violations.length === 0; more--) {
      again = await firstViolation(faults, { point });
    }
    expect(again.violations.map(({ point }) => point)).toEqual([point]);
    expect(violation && describeViolation("tiny", violation)).toContain(`perturb: tiny: ${point}`);
  });

  it("lets no watch that stood still overtake that of the guides, when it can ask about them", async () => {
    // Stopped before the device comes, the watch of nodes goes on after the rule has gone.
    const point = "paused MODIFIED nodes n1 #1";
    let raced = await perturb(guidedStory(false), { cluster, point });
    // What it does with a race, it does not do every time.
    for (let more = 12; more > 0 && raced.violations.length === 0; more--) {
      raced = await perturb(guidedStory(false), { cluster, point });
    }
    expect(raced.violations.flatMap(({ problems }) => problems).join("\n")).toMatch(/flapped/);
    const asked = await perturb(guidedStory(true), { cluster, point });
    expect(asked.violations).toEqual([]);
    expect(asked.notReached).toEqual([]);
  });

  it("does not begin when the story goes wrong undisturbed", async () => {
    const { violations, replays } = await firstViolation({ idle: true }, {});
    expect(violations.map(({ point }) => point)).toEqual(["undisturbed"]);
    expect(Object.values(replays).every((count) => count === 0)).toBe(true);
  });

  it("names the points there are when asked for another", async () => {
    const asked = perturb(tinyStory(), { cluster, point: "kill-before patch nodes n9 #1" });
    await expect(asked).rejects.toThrow(/kill-before patch nodes n1 #1/);
  });
});

function firstViolation(
  faults: TinyFaults,
  only: Pick<PerturbOptions, "point" | "choose">,
): Promise<PerturbResult> {
  return perturb(tinyStory(faults), { cluster, timeoutMs: FAULT_TIMEOUT_MS, mostViolations: 1, ...only });
}
