/** The stories of a Workload: its Instances are rolled and scaled, and wait for quota. */
import type { PerturbationStory } from "@berth/testcluster";
import { fleetStory, REST } from "./fleet-scene.ts";

/** Three Instances take another image one by one, two of them go, one comes back, and both are restarted. */
export const fleetRoll: PerturbationStory = fleetStory(
  "fleet/roll",
  {
    pace: 20,
    steps: ({ addWorkload, annotate, image, isSettled, restartedAt, scale }) => [
      { name: "workload-comes", run: () => addWorkload(3), over: () => isSettled(3) },
      { name: "image-changes", needsSettled: true, run: () => image("app:2"), over: () => isSettled(3) },
      { name: "two-go", run: () => scale(1), over: () => isSettled(1) },
      { name: "one-comes-back", run: () => scale(2), over: () => isSettled(2) },
      { name: "both-restart", run: () => restartedAt("2026-01-01T00:00:00Z"), over: () => isSettled(2) },
      { name: REST, needsSettled: true, run: annotate },
    ],
  },
  { oldestView: 1 },
);

/**
 * The second of two Instances waits until the budget rises. Then it is deleted while the quota service is slow, and another
 * program removes it at once: the claim of the old Instance is still ending when the new one asks.
 */
export const fleetQuota: PerturbationStory = fleetStory(
  "fleet/quota",
  {
    budget: 1,
    // Berth looks at a claim once a second while something waits for it. Each look is a request.
    pace: 4,
    steps: (actor) => {
      const { addWorkload, annotate, holdClaim, isClaimEnding, isDenied, isGone, isSettled } = actor;
      let old: string | undefined;
      return [
        { name: "workload-comes", run: () => addWorkload(2), over: () => isDenied(1) },
        {
          name: "budget-rises",
          needsSettled: true,
          run: () => Promise.resolve(actor.setBudget(2)),
          over: () => isSettled(2),
        },
        { name: "service-holds-claim", needsSettled: true, run: () => holdClaim(1, true) },
        {
          name: "instance-is-deleted",
          needsSettled: true,
          run() {
            old = actor.uidOf(1);
            return actor.removeInstance(1);
          },
          over: () => isClaimEnding(1),
        },
        {
          name: "instance-is-stripped",
          needsSettled: true,
          run: () => actor.stripInstance(1),
          over: () => ![undefined, old].includes(actor.uidOf(1)),
        },
        { name: "service-lets-go", run: () => holdClaim(1, false), over: () => isSettled(2) },
        { name: REST, needsSettled: true, run: annotate },
        { name: "workload-is-deleted", run: actor.removeWorkload, over: isGone },
      ];
    },
  },
  { oldestView: 1 },
);
