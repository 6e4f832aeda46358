/** Finds the Location in this cell that serves a deployment. Pure. */
import { CITY_TOPOLOGY } from "../api/keys.ts";
import type { Location } from "../api/networking.ts";
import type { LocationReference, WorkloadDeployment } from "../api/workload.ts";

/** Why a deployment waits: reason and message of its condition `Available`. */
export interface Blocked {
  readonly reason: NetworkReason;
  readonly message: string;
}

export type NetworkReason =
  | "NoMatchingLocation"
  | "AmbiguousServingLocation"
  | "NetworkFailedToCreate"
  | "NetworkProvisioning";

/** How a deployment names its Location changes upstream: by city code now, by reference or selector later. */
export type LocationResolver = (
  deployment: WorkloadDeployment,
  locations: readonly Location[],
) => { readonly location: LocationReference } | { readonly blocked: Blocked };

/**
 * The only Location with the city code of the deployment. City codes are case-sensitive. Of several, the one that the
 * deployment has already; so a second Location of its city does not move it.
 */
export const locationOfCity: LocationResolver = ({ spec, status }, locations) => {
  const city = spec?.cityCode ?? "";
  const matching = locations
    .filter((it) => it.spec?.topology?.[CITY_TOPOLOGY] === city)
    .map(({ metadata }) => ({ name: metadata?.name ?? "", namespace: metadata?.namespace ?? "" }))
    .sort((a, b) => (pathOf(a) < pathOf(b) ? -1 : 1));
  const current = status?.location;
  const kept = current && matching.find((it) => pathOf(it) === pathOf(current));
  const [location = kept, second] = kept === undefined ? matching : [kept];
  if (location === undefined)
    return blocked("NoMatchingLocation", `No Location matches city code ${JSON.stringify(city)}`);
  if (second === undefined) return { location };
  const names = `${pathOf(location)} and ${pathOf(second)}`;
  return blocked(
    "AmbiguousServingLocation",
    `${matching.length} Locations have city code ${JSON.stringify(city)}, among them ${names}. Keep one of them.`,
  );
};

/** `namespace/name` */
export function pathOf({ namespace, name }: { readonly namespace?: string; readonly name?: string }): string {
  return `${namespace ?? ""}/${name ?? ""}`;
}

function blocked(reason: NetworkReason, message: string): { readonly blocked: Blocked } {
  return { blocked: { reason, message } };
}
