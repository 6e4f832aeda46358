/** What the networks of this cluster say about deployments and Instances. */

import type { KubeObject } from "@berth/kube";
import type { ClusterName, Informer } from "@berth/runtime";
import { CITY_TOPOLOGY, gates } from "../api/keys.ts";
import type { Instance, WorkloadDeployment } from "../api/workload.ts";
import { type FleetSpec, listedCities } from "../fleet/document.ts";
import { hasGate } from "../instance/tiers.ts";
import type { NetworkSeen } from "../instance/view.ts";
import { decideNetwork, failedBinding, type NetworkDecision } from "../network/decide.ts";
import { by, type Caches, type NetworkCaches } from "./caches.ts";

export class NetworkStep {
  readonly #caches: Caches;
  readonly #spec: FleetSpec;
  readonly #cluster: ClusterName;

  constructor(caches: Caches, spec: FleetSpec, cluster: ClusterName) {
    this.#caches = caches;
    this.#spec = spec;
    this.#cluster = cluster;
  }

  /** `unknown`: not read yet, or the networks of this cluster are gone. Then no gate opens. */
  get state(): "on" | "off" | "unknown" {
    const { networking } = this.#caches;
    if (networking === undefined) return "off";
    const { synced, absent, refusal } = networking.bindings;
    // A server that refuses the question may have networks: a new one refuses all until it has read its roles.
    const isServed = synced || !absent || refusal !== undefined;
    if (!isServed && this.#spec.networking === "Auto") return "off";
    return all(networking).every(({ synced, absent }) => synced && !absent) ? "on" : "unknown";
  }

  /** The city codes that a Workload may name, sorted. `undefined`: not known, or any. */
  cities(): readonly string[] | undefined {
    const { networking } = this.#caches;
    if (this.state === "unknown") return undefined;
    if (this.state === "off" || networking === undefined) return listedCities(this.#spec);
    const found = [...networking.locations.list()].flatMap(
      ({ spec }) => spec?.topology?.[CITY_TOPOLOGY] ?? [],
    );
    return [...new Set(found)].sort();
  }

  /** `undefined`: not known. */
  of(deployment: WorkloadDeployment): NetworkDecision | undefined {
    const { networking } = this.#caches;
    if (this.state === "unknown") return undefined;
    if (this.state === "off" || networking === undefined) return decideNetwork(undefined);
    const { locations, bindings, contexts, networks, subnetClaims, subnets } = networking;
    return decideNetwork({
      deployment,
      locations: [...locations.list()],
      bindings: bindings.byIndex(by.namespace, deployment.metadata?.namespace ?? ""),
      contexts: [...contexts.list()],
      networks: [...networks.list()],
      subnetClaims: [...subnetClaims.list()],
      subnets: [...subnets.list()],
    });
  }

  /** What the Instance may do. An API that is not served opens no gate: only the Fleet can switch networks off. */
  seenBy(instance: Instance): NetworkSeen {
    const { networking, deployments } = this.#caches;
    if (networking === undefined) return { is: "off" };
    const isGated = hasGate(instance, gates.network);
    const { namespace = "", ownerReferences = [] } = instance.metadata ?? {};
    // Not by its label: Instances of earlier versions of the original have none.
    const { name = "" } = ownerReferences.find(({ controller }) => controller === true) ?? {};
    const deployment = deployments.get({ cluster: this.#cluster, namespace, name });
    if (!isGated || deployment === undefined || this.state !== "on") return { is: "on", isReady: false };
    const ours = networking.bindings
      .byIndex(by.namespace, namespace)
      .filter(({ metadata }) =>
        metadata?.ownerReferences?.some(({ uid }) => uid === deployment.metadata?.uid),
      );
    return { is: "on", isReady: this.of(deployment)?.ready === true, failed: failedBinding(ours) };
  }
}

function all(caches: NetworkCaches): readonly Informer<KubeObject>[] {
  return Object.values(caches);
}
