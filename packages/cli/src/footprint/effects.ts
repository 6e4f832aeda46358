/** What footprints would do to objects beside nodes, looked up for `plan`: each kind is listed once, and only if a document asks. */
import { type Deployment, deployments } from "@berth/kube";
import {
  type FootprintSight,
  type Footprints,
  forecastWait,
  type WaitForecast,
  wouldHold,
} from "@berth/placement";
import { sleep } from "@berth/runtime";
import { eachObject, type ListingSurroundings } from "../listing.ts";
import type { Surroundings } from "../surroundings.ts";
import { distinctHolds, eachOwner } from "./owners.ts";

export interface FootprintEffects {
  /** Deployments that would be rolled out, in order of namespace and name. */
  readonly deployments: readonly WaitForecast[];
  /** How many more may be: what their pods are selected by could not be read. */
  readonly unknownDeployments: number;
  /** Owners that would get a finalizer, in the order of the server. */
  readonly owners: readonly { readonly owner: string; readonly finalizer: string }[];
}

export interface EffectsView extends ListingSurroundings {
  readonly surroundings: Surroundings;
  readonly footprints: Footprints;
  readonly sight: FootprintSight;
  readonly installation: string;
  /** How long it is waited for what pods are selected by, over all Deployments. Milliseconds. */
  readonly patienceMs: number;
}

const LOOK_MS = 50;

/** What may not be read is said, and left out. */
export async function findFootprintEffects(view: EffectsView): Promise<FootprintEffects> {
  const { footprints } = view;
  const isWaiting = footprints.footprints.some(({ wait }) => wait?.inject === "ServerSideApply");
  const waits = isWaiting ? await findWaits(view) : { deployments: [], unknownDeployments: 0 };
  const owners: { owner: string; finalizer: string }[] = [];
  for (const hold of distinctHolds(footprints)) {
    const consequence = `which of them would get the finalizer ${hold.finalizer} is unknown`;
    await eachOwner(hold, { ...view, consequence }, ({ object, text }) => {
      if (wouldHold(hold, object)) owners.push({ owner: text, finalizer: hold.finalizer });
    });
  }
  return { ...waits, owners };
}

/** Is there anything that would be written? */
export function isEffective({ deployments: found, owners }: FootprintEffects): boolean {
  return found.length + owners.length > 0;
}

async function findWaits(view: EffectsView): Promise<Omit<FootprintEffects, "owners">> {
  const { footprints, sight, installation, surroundings, patienceMs } = view;
  const { clock, signal } = surroundings;
  const untilMs = clock.monotonic() + patienceMs;
  const found: WaitForecast[] = [];
  let unknownDeployments = 0;
  /** Looking has what is missing read. */
  const settled = async (deployment: Deployment): Promise<ReturnType<typeof forecastWait>> => {
    for (;;) {
      const said = forecastWait({ deployment, installation, footprints, sight });
      if (said !== "unknown" || clock.monotonic() >= untilMs) return said;
      if (!(await sleep(clock, LOOK_MS, signal))) return said;
    }
  };
  const consequence = "which of them would be rolled out for a wait is unknown";
  await eachObject({ resource: deployments, consequence }, view, async (deployment) => {
    const said = await settled(deployment);
    if (said === "unknown") unknownDeployments += 1;
    else if (said !== undefined) found.push(said);
  });
  found.sort((a, b) => (a.deployment < b.deployment ? -1 : 1));
  return { deployments: found, unknownDeployments };
}
