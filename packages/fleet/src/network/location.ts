/** Finds the Location in this cell that serves a deployment. Pure. */
import { pathOf } from "@berth/kube";
import { CITY_TOPOLOGY } from "../api/keys.ts";
import type { Location } from "../api/networking.ts";
import type { LocationReference, WorkloadDeployment } from "../api/workload.ts";
import type { FleetSpec } from "../fleet/document.ts";

/** Why a deployment waits: reason and message of its condition `Available`. */
export interface Blocked {
  readonly reason: NetworkReason;
  readonly message: string;
}

export type NetworkReason =
  | "NoMatchingLocation"
  | "AmbiguousServingLocation"
  /** The template asks for another network than the one that is bound. */
  | "NetworkChanged"
  /** The template names a network of another namespace. */
  | "ForeignNetwork"
  /** Berth cannot read the networks of the cluster. */
  | "NetworksNotRead"
  | "NetworkFailedToCreate"
  | "NetworkProvisioning";

/** Namespaces whose Locations count. `undefined`: all. */
export type LocationNamespaces = readonly string[] | undefined;

/** @param home Berth's own namespace. Absent: there is none, and the Fleet alone can leave Locations out. */
export function locationNamespaces(
  { mode, locations }: FleetSpec,
  home: string | undefined,
): LocationNamespaces {
  return locations.namespaces ?? (mode === "single" && home !== undefined ? [home] : undefined);
}

/** The Locations that have this city and count, and those that have it and do not. */
export function locationsIn(
  city: string,
  locations: readonly Location[],
  namespaces: LocationNamespaces,
): { readonly counted: readonly LocationReference[]; readonly ignored: readonly LocationReference[] } {
  const matching = locations
    .filter((it) => it.spec?.topology?.[CITY_TOPOLOGY] === city)
    .map(({ metadata }) => ({ name: metadata?.name ?? "", namespace: metadata?.namespace ?? "" }))
    .sort((a, b) => (pathOf(a) < pathOf(b) ? -1 : 1));
  const counts = ({ namespace }: LocationReference): boolean => namespaces?.includes(namespace) ?? true;
  return { counted: matching.filter(counts), ignored: matching.filter((it) => !counts(it)) };
}

/** For the end of a message that refuses a city. `""` when no Location is left out. */
export function ignoredNote(
  city: string,
  locations: readonly Location[],
  namespaces: LocationNamespaces,
): string {
  const [first] = locationsIn(city, locations, namespaces).ignored;
  if (first === undefined) return "";
  return ` (Location ${pathOf(first)} does not count: locations.namespaces of the Fleet lists no namespace ${first.namespace})`;
}

/** How a deployment names its Location changes upstream: by city code now, by reference or selector later. */
export type LocationResolver = (
  deployment: WorkloadDeployment,
  locations: readonly Location[],
  namespaces?: LocationNamespaces,
) => { readonly location: LocationReference } | { readonly blocked: Blocked };

/**
 * The only Location with the city code of the deployment. City codes are case-sensitive. Of several, the one that the
 * deployment has already; so a second Location of its city does not move it.
 */
export const locationOfCity: LocationResolver = ({ spec, status }, locations, namespaces) => {
  const city = spec?.cityCode ?? "";
  const { counted: matching } = locationsIn(city, locations, namespaces);
  const current = status?.location;
  const kept = current && matching.find((it) => pathOf(it) === pathOf(current));
  const [location, second] = kept === undefined ? matching : [kept];
  if (location === undefined)
    return blocked(
      "NoMatchingLocation",
      `No Location matches city code ${JSON.stringify(city)}${ignoredNote(city, locations, namespaces)}`,
    );
  if (second === undefined) return { location };
  const names = `${pathOf(location)} and ${pathOf(second)}`;
  return blocked(
    "AmbiguousServingLocation",
    `${matching.length} Locations have city code ${JSON.stringify(city)}, among them ${names}. Keep one of them.`,
  );
};

function blocked(reason: NetworkReason, message: string): { readonly blocked: Blocked } {
  return { blocked: { reason, message } };
}
