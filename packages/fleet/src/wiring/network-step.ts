/** What the networks of this cluster say about deployments and Instances. */

import type { View } from "@berth/host";
import { type KubeObject, pathOf } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { bindingName, CITY_TOPOLOGY, gates, labels } from "../api/keys.ts";
import type { Location, NetworkBinding } from "../api/networking.ts";
import { isOwnedBy, ownerOf } from "../api/owner.ts";
import type { Instance, WorkloadDeployment } from "../api/workload.ts";
import { listedCities } from "../fleet/document.ts";
import type { CurrentFleet } from "../fleet/follow.ts";
import { hasGate } from "../instance/tiers.ts";
import type { NetworkSeen } from "../instance/view.ts";
import { decideNetwork, failedBinding, type NetworkDecision, type NetworkView } from "../network/decide.ts";
import { ignoredNote, type LocationNamespaces, locationNamespaces } from "../network/location.ts";
import { citiesOf } from "../workload/decide.ts";
import { by, type FleetViews, NETWORK_KINDS } from "./reads.ts";

/** What cannot be read for so long is said. A server that has just started refuses all for some seconds. Milliseconds. */
const SAID_AFTER_MS = 10_000;

export interface NetworkStepOptions {
  readonly views: FleetViews;
  readonly fleet: CurrentFleet;
  readonly clock: Pick<Clock, "monotonic">;
  /** Berth's own namespace. */
  readonly home?: string | undefined;
  /** Told at each look why the networks cannot be read. `undefined`: they can. */
  readonly onLook?: (unread: string | undefined) => void;
}

export class NetworkStep {
  readonly #options: NetworkStepOptions;
  #unreadSinceMs: number | undefined;

  constructor(options: NetworkStepOptions) {
    this.#options = options;
  }

  /** Those whose Locations count. */
  get namespaces(): LocationNamespaces {
    const { fleet, home } = this.#options;
    return locationNamespaces(fleet.spec, home);
  }

  /** `unknown`: not read, or the networks of this cluster are gone. Then no gate opens. */
  get state(): "on" | "off" | "unknown" {
    const { views, fleet } = this.#options;
    const { networking } = fleet.spec;
    // A server that refuses the question may have networks: a new one refuses all until it has read its roles.
    const bindings = views.networkBindings;
    const isServed = bindings.synced || !bindings.isMissing() || bindings.isRefused();
    if (networking === "Off" || (networking === "Auto" && !isServed)) return "off";
    return problemsOf(views).length === 0 ? "on" : "unknown";
  }

  /** Which kinds cannot be read, and why, once that lasts. `undefined`: all are read, or it is too early to say. */
  unread(): string | undefined {
    const { views, clock, onLook } = this.#options;
    const nowMs = clock.monotonic();
    this.#unreadSinceMs = this.state === "unknown" ? (this.#unreadSinceMs ?? nowMs) : undefined;
    const isLong = nowMs - (this.#unreadSinceMs ?? nowMs) >= SAID_AFTER_MS;
    const message = isLong ? `Berth cannot read the networks: ${problemsOf(views).join(", ")}` : undefined;
    if (message !== undefined || this.state === "on") onLook?.(message);
    return message;
  }

  /** The city codes that a Workload may name, sorted. `undefined`: not known, or any. */
  cities(): readonly string[] | undefined {
    const { views, fleet } = this.#options;
    if (this.state === "unknown") return undefined;
    if (this.state === "off") return listedCities(fleet.spec);
    return [...citiesOf([...views.locations.list()], this.namespaces)].sort();
  }

  /** For the end of a message that refuses this city. */
  cityNote(city: string): string {
    const { locations } = this.#options.views;
    return ignoredNote(city, locations.byIndex(by.city, city), this.namespaces);
  }

  /** `undefined`: not known, and too early to say so. */
  of(deployment: WorkloadDeployment): NetworkDecision | undefined {
    if (this.state === "off") return decideNetwork(undefined);
    const unread = this.unread();
    if (this.state === "on") {
      const view = this.#viewOf(deployment);
      return view && decideNetwork(view);
    }
    const blocked = { reason: "NetworksNotRead", message: unread ?? "" } as const;
    return unread === undefined ? undefined : { ready: false, blocked, create: [] };
  }

  /** What the Instance may do. An API that is not served opens no gate: only the Fleet can switch networks off. */
  seenBy(instance: Instance): NetworkSeen {
    const { views, fleet } = this.#options;
    if (fleet.spec.networking === "Off") return { is: "off" };
    const isGated = hasGate(instance, gates.network);
    const deployment = views.deployments.find(ownerOf(instance)?.name ?? "", instance.metadata?.namespace);
    if (!isGated || !deployment || this.state !== "on") return { is: "on", isReady: false };
    const ours = this.#bindingsOf(deployment).filter((it) => isOwnedBy(it, deployment));
    return { is: "on", isReady: this.of(deployment)?.ready === true, failed: failedBinding(ours) };
  }

  /** Only what this deployment leads to. `undefined`: its namespace has not been read, and matters. */
  #viewOf(deployment: WorkloadDeployment): NetworkView | undefined {
    const { views } = this.#options;
    const { namespace = "" } = deployment.metadata ?? {};
    const isForeign = interfacesOf(deployment).some(
      ({ network: { namespace: of } }) => of && of !== namespace,
    );
    if (isForeign && views.namespaces.isWanted && !views.namespaces.synced) return undefined;
    const kept = keptLocation(views, deployment, this.namespaces);
    const bindings = this.#bindingsOf(deployment);
    const contexts = bindings.flatMap(({ status: { networkContextRef: of } = {} }) =>
      found(views.networkContexts, of?.namespace, of?.name),
    );
    const subnetClaims = contexts.flatMap(({ metadata }) =>
      views.subnetClaims.byIndex(by.context, pathOf(metadata)),
    );
    return {
      deployment,
      bindings,
      contexts,
      subnetClaims,
      locations: kept ? [kept] : views.locations.byIndex(by.city, deployment.spec?.cityCode ?? ""),
      locationNamespaces: this.namespaces,
      networks: contexts.flatMap(({ metadata, spec }) =>
        found(views.networks, metadata?.namespace, spec?.network?.name),
      ),
      subnets: subnetClaims.flatMap(({ metadata, status }) =>
        found(views.subnets, metadata?.namespace, status?.subnetRef?.name),
      ),
      projectNamespace: views.namespaces.find(namespace)?.metadata?.labels?.[labels.upstreamNamespace],
    };
  }

  #bindingsOf(deployment: WorkloadDeployment): readonly NetworkBinding[] {
    const { namespace, name = "" } = deployment.metadata ?? {};
    const { networkBindings } = this.#options.views;
    return interfacesOf(deployment).flatMap((_, at) =>
      found(networkBindings, namespace, bindingName(name, at)),
    );
  }
}

/** The Location that the deployment has, if it still serves its city and counts. See `locationOfCity`. */
export function keptLocation(
  { locations }: Pick<FleetViews, "locations">,
  { spec, status }: WorkloadDeployment,
  counted: LocationNamespaces,
): Location | undefined {
  const { namespace = "", name = "" } = status?.location ?? {};
  const kept = locations.find(name, namespace);
  const serves = kept?.spec?.topology?.[CITY_TOPOLOGY] === spec?.cityCode;
  return kept && serves && counts(namespace, counted) ? kept : undefined;
}

/** Does the city have a Location that counts, beside this one? Then a change of this one changes no answer about it. */
export function isServedBeside(
  { locations }: Pick<FleetViews, "locations">,
  { metadata }: Location,
  city: string,
  counted: LocationNamespaces,
): boolean {
  return locations
    .byIndex(by.city, city)
    .some((it) => counts(it.metadata?.namespace, counted) && pathOf(it.metadata) !== pathOf(metadata));
}

function counts(namespace = "", counted: LocationNamespaces): boolean {
  return counted?.includes(namespace) ?? true;
}

function found<T extends KubeObject>(
  view: Pick<View<T>, "find">,
  namespace: string | undefined,
  name: string | undefined,
): readonly T[] {
  const object = name === undefined ? undefined : view.find(name, namespace);
  return object ? [object] : [];
}

function interfacesOf({ spec }: WorkloadDeployment) {
  return spec?.template.spec.networkInterfaces ?? [];
}

/** `subnets (not served)` */
function problemsOf(views: FleetViews): readonly string[] {
  return NETWORK_KINDS.flatMap((kind) => {
    const view = views[kind];
    if (view.synced && !view.isMissing() && !view.isRefused()) return [];
    const because = view.isRefused() ? "forbidden" : view.isMissing() ? "not served" : "not read yet";
    return `${kind.toLowerCase()} (${because})`;
  });
}
