/** The quota service, for tests. It counts `compute.datumapis.com/instances` only. */
import type { KubeClient } from "@berth/kube";
import { isConditionTrue } from "@berth/runtime";
import { type ResourceClaim, requestTypes, resourceClaims } from "../api/quota.ts";
import { Actor } from "./actor.ts";

const GRANTED = "Granted";

export interface ClaimGrants extends Pick<Actor, "pause" | "resume">, AsyncDisposable {
  /** A lower budget takes no grant back. */
  setBudget(instances: number): void;
}

/**
 * Grants each ResourceClaim that fits the budget, and denies the others with `QuotaExceeded`. It decides again about a
 * denied claim when the budget rises or a granted claim is deleted. Grants of an earlier run count.
 */
export async function grantClaims(
  client: KubeClient,
  options: { readonly budget: number },
): Promise<ClaimGrants> {
  let { budget } = options;
  /** Amounts by uid of the claim. They count from the decision on, before the API server shows it. */
  const granted = new Map<string, number>();
  let used = 0;
  let isAnyDenied = false;
  const grant = (claim: ResourceClaim): void => {
    granted.set(uidOf(claim), amountOf(claim));
    used += amountOf(claim);
  };
  const actor = new Actor(client);
  const decideAgain = (): void => {
    if (isAnyDenied) actor.again();
    isAnyDenied = false;
  };
  await actor.follow({
    resource: resourceClaims,
    onChange({ type, object }) {
      if (type === "deleted") {
        used -= granted.get(uidOf(object)) ?? 0;
        granted.delete(uidOf(object));
        decideAgain();
      } else if (isConditionTrue(object.status?.conditions, GRANTED) && !granted.has(uidOf(object)))
        grant(object);
    },
    async act(claim) {
      if (!granted.has(uidOf(claim)) && used + amountOf(claim) <= budget) grant(claim);
      const isGranted = granted.has(uidOf(claim));
      if (!isGranted) isAnyDenied = true;
      await actor.report(resourceClaims, claim, {
        type: GRANTED,
        ...(isGranted
          ? { status: "True", reason: "QuotaAvailable", message: "The claim fits the budget" }
          : { status: "False", reason: "QuotaExceeded", message: "The claim exceeds the budget" }),
      });
    },
  });
  return {
    pause: () => actor.pause(),
    resume: () => actor.resume(),
    setBudget(instances) {
      budget = instances;
      decideAgain();
    },
    [Symbol.asyncDispose]: () => actor[Symbol.asyncDispose](),
  };
}

const uidOf = ({ metadata }: ResourceClaim): string => metadata?.uid ?? "";

function amountOf({ spec }: ResourceClaim): number {
  const request = spec?.requests.find(({ resourceType }) => resourceType === requestTypes.instances);
  return request?.amount ?? 0;
}
