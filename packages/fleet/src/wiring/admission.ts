/** Answers what the API server of Berth's own cluster asks about the fleet. */
import { bindAdmission, type Host, ownUsername } from "@berth/host";
import { createLoopComponent, sleep, whenAborted } from "@berth/runtime";
import { type FleetInForce, fleetAdmission } from "../admit/review.ts";
import type { FleetSpec } from "../fleet/document.ts";

/** Delay before Berth asks again who it is, ms. */
const RETRY_MS = 10_000;

/** What answers need beside the Fleet. */
export type KnownToAdmission = Pick<FleetInForce, "networking" | "cities" | "cityNote" | "served">;

/** @returns to be called when another Fleet came into force. */
export function addAdmission(
  host: Host,
  fleet: { readonly spec: FleetSpec },
  known: KnownToAdmission,
): () => void {
  let self: string | undefined;
  const inForce = (): FleetInForce => ({
    ...known,
    spec: fleet.spec,
    self,
    // Until Berth knows its own name, what protects Instances stays as it is.
    policy: self === undefined ? { isReading: true } : {},
  });
  let current = inForce();
  const handle = host.review({
    rules: bindAdmission(fleetAdmission, () => current),
    onChange: () => undefined,
  });
  const changed = (): void => {
    current = inForce();
    handle.changed();
  };
  const identity = createLoopComponent({
    name: "fleet-identity",
    async run(signal) {
      changed();
      do {
        self = await ownUsername(host.client, signal);
        if (self === undefined) continue;
        changed();
        return whenAborted(signal);
      } while (await sleep(host.clock, RETRY_MS, signal));
    },
  });
  host.add([identity], "everywhere");
  return changed;
}
