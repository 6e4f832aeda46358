/** What the networks of this cluster say about deployments and Instances. */

import { type KubeObject, pathOf } from "@berth/kube";
import type { Clock, ClusterName, Informer, ObjectKey } from "@berth/runtime";
import { bindingName, CITY_TOPOLOGY, gates, labels } from "../api/keys.ts";
import type { Location, NetworkBinding } from "../api/networking.ts";
import { isOwnedBy, ownerOf } from "../api/owner.ts";
import type { Instance, WorkloadDeployment } from "../api/workload.ts";
import { type FleetSpec, listedCities } from "../fleet/document.ts";
import { hasGate } from "../instance/tiers.ts";
import type { NetworkSeen } from "../instance/view.ts";
import { decideNetwork, failedBinding, type NetworkDecision, type NetworkView } from "../network/decide.ts";
import { ignoredNote, type LocationNamespaces, locationNamespaces } from "../network/location.ts";
import { citiesOf } from "../workload/decide.ts";
import { by, type Caches, type NetworkCaches } from "./caches.ts";

/** What cannot be read for so long is said. A server that has just started refuses all for some seconds. Milliseconds. */
const SAID_AFTER_MS = 10_000;

export interface NetworkStepOptions {
  readonly caches: Caches;
  readonly spec: FleetSpec;
  readonly cluster: ClusterName;
  readonly clock: Pick<Clock, "monotonic">;
  /** Berth's own namespace. */
  readonly home?: string | undefined;
  /** Told at each look why the networks cannot be read. `undefined`: they can. */
  readonly onLook?: (unread: string | undefined) => void;
}

export class NetworkStep {
  readonly #options: NetworkStepOptions;
  readonly #namespaces: LocationNamespaces;
  #unreadSinceMs: number | undefined;

  constructor(options: NetworkStepOptions) {
    this.#options = options;
    this.#namespaces = locationNamespaces(options.spec, options.home);
  }

  /** `unknown`: not read, or the networks of this cluster are gone. Then no gate opens. */
  get state(): "on" | "off" | "unknown" {
    const { caches, spec } = this.#options;
    if (caches.networking === undefined) return "off";
    const { synced, absent, refusal } = caches.networking.networkBindings;
    // A server that refuses the question may have networks: a new one refuses all until it has read its roles.
    const isServed = synced || !absent || refusal !== undefined;
    if (!isServed && spec.networking === "Auto") return "off";
    return problemsOf(caches.networking).length === 0 ? "on" : "unknown";
  }

  /** Which kinds cannot be read, and why, once that lasts. `undefined`: all are read, or it is too early to say. */
  unread(): string | undefined {
    const { caches, clock, onLook } = this.#options;
    const isUnknown = caches.networking !== undefined && this.state === "unknown";
    this.#unreadSinceMs = isUnknown ? (this.#unreadSinceMs ?? clock.monotonic()) : undefined;
    const isLong = clock.monotonic() - (this.#unreadSinceMs ?? clock.monotonic()) >= SAID_AFTER_MS;
    const problems = caches.networking === undefined ? [] : problemsOf(caches.networking);
    const message = isLong ? `Berth cannot read the networks: ${problems.join(", ")}` : undefined;
    if (message !== undefined || this.state === "on") onLook?.(message);
    return message;
  }

  /** The city codes that a Workload may name, sorted. `undefined`: not known, or any. */
  cities(): readonly string[] | undefined {
    const { caches, spec } = this.#options;
    if (this.state === "unknown") return undefined;
    if (this.state === "off" || caches.networking === undefined) return listedCities(spec);
    return [...citiesOf([...caches.networking.locations.list()], this.#namespaces)].sort();
  }

  /** For the end of a message that refuses this city. */
  cityNote(city: string): string {
    const { networking } = this.#options.caches;
    if (networking === undefined) return "";
    return ignoredNote(city, networking.locations.byIndex(by.city, city), this.#namespaces);
  }

  /** May a change of this Location concern the deployment? One that has its own keeps it, whatever others come and go. */
  concerns({ metadata = {} }: Location, deployment: WorkloadDeployment): boolean {
    const kept = this.#keptBy(deployment)?.metadata;
    return kept === undefined || pathOf(kept) === pathOf(metadata);
  }

  /** Does the city have a Location that counts, beside this one? Then a change of this one changes no answer about it. */
  isServedBeside({ metadata = {} }: Location, city: string): boolean {
    const all = this.#options.caches.networking?.locations.byIndex(by.city, city) ?? [];
    return all.some(
      (it) => this.#counts(it.metadata?.namespace) && pathOf(it.metadata ?? {}) !== pathOf(metadata),
    );
  }

  /** `undefined`: not known, and too early to say so. */
  of(deployment: WorkloadDeployment): NetworkDecision | undefined {
    const { networking } = this.#options.caches;
    if (networking === undefined || this.state === "off") return decideNetwork(undefined);
    const unread = this.unread();
    if (this.state === "on") {
      const view = this.#viewOf(deployment, networking);
      return view && decideNetwork(view);
    }
    const blocked = { reason: "NetworksNotRead", message: unread ?? "" } as const;
    return unread === undefined ? undefined : { ready: false, blocked, create: [] };
  }

  /** What the Instance may do. An API that is not served opens no gate: only the Fleet can switch networks off. */
  seenBy(instance: Instance): NetworkSeen {
    const { networking, deployments } = this.#options.caches;
    if (networking === undefined) return { is: "off" };
    const isGated = hasGate(instance, gates.network);
    const { name = "" } = ownerOf(instance) ?? {};
    const deployment = deployments.get(this.#key(instance.metadata?.namespace ?? "", name));
    if (!isGated || deployment === undefined || this.state !== "on") return { is: "on", isReady: false };
    const ours = this.#bindingsOf(deployment, networking).filter((it) => isOwnedBy(it, deployment));
    return { is: "on", isReady: this.of(deployment)?.ready === true, failed: failedBinding(ours) };
  }

  /** Only what this deployment leads to. `undefined`: its namespace has not been read, and matters. */
  #viewOf(deployment: WorkloadDeployment, networking: NetworkCaches): NetworkView | undefined {
    const { namespaces } = this.#options.caches;
    const { namespace = "" } = deployment.metadata ?? {};
    const isForeign = interfacesOf(deployment).some(
      ({ network: { namespace: of } }) => of && of !== namespace,
    );
    if (isForeign && namespaces?.synced === false) return undefined;
    const read = <T extends KubeObject>(cache: Informer<T>, of: string = "", name?: string): readonly T[] => {
      const object = name === undefined ? undefined : cache.get(this.#key(of, name));
      return object === undefined ? [] : [object];
    };
    const kept = this.#keptBy(deployment);
    const bindings = this.#bindingsOf(deployment, networking);
    const contexts = bindings.flatMap(({ status }) =>
      read(networking.networkContexts, status?.networkContextRef?.namespace, status?.networkContextRef?.name),
    );
    const subnetClaims = contexts.flatMap(({ metadata }) =>
      networking.subnetClaims.byIndex(by.context, pathOf(metadata)),
    );
    return {
      deployment,
      bindings,
      contexts,
      subnetClaims,
      locations: kept ? [kept] : networking.locations.byIndex(by.city, deployment.spec?.cityCode ?? ""),
      locationNamespaces: this.#namespaces,
      networks: contexts.flatMap(({ metadata, spec }) =>
        read(networking.networks, metadata?.namespace, spec?.network?.name),
      ),
      subnets: subnetClaims.flatMap(({ metadata, status }) =>
        read(networking.subnets, metadata?.namespace, status?.subnetRef?.name),
      ),
      projectNamespace: namespaces?.get(this.#key("", namespace))?.metadata?.labels?.[
        labels.upstreamNamespace
      ],
    };
  }

  #bindingsOf(deployment: WorkloadDeployment, { networkBindings }: NetworkCaches): readonly NetworkBinding[] {
    const { namespace = "", name = "" } = deployment.metadata ?? {};
    return interfacesOf(deployment).flatMap(
      (_, at) => networkBindings.get(this.#key(namespace, bindingName(name, at))) ?? [],
    );
  }

  /** The Location that the deployment has, if it still serves its city. See `locationOfCity`. */
  #keptBy({ spec, status }: WorkloadDeployment): Location | undefined {
    const { namespace = "", name = "" } = status?.location ?? {};
    const found = this.#options.caches.networking?.locations.get(this.#key(namespace, name));
    const serves = found?.spec?.topology?.[CITY_TOPOLOGY] === spec?.cityCode;
    return serves && this.#counts(namespace) ? found : undefined;
  }

  #counts(namespace: string = ""): boolean {
    return this.#namespaces?.includes(namespace) ?? true;
  }

  #key(namespace: string, name: string): ObjectKey {
    return { cluster: this.#options.cluster, namespace, name };
  }
}

function interfacesOf({ spec }: WorkloadDeployment) {
  return spec?.template.spec.networkInterfaces ?? [];
}

/** `subnets (not served)` */
function problemsOf(caches: NetworkCaches): readonly string[] {
  return Object.entries(caches).flatMap(([kind, { synced, absent, refusal }]) => {
    if (synced && !absent && refusal === undefined) return [];
    const because = refusal !== undefined ? "forbidden" : absent ? "not served" : "not read yet";
    return `${kind.toLowerCase()} (${because})`;
  });
}
