/**
 * The parts of `networking.datumapis.com` that the fleet reads and writes. Its controllers are another product, and
 * later versions of it may lack fields of objects that they make.
 */
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";
import { NETWORKING_GROUP as group, NETWORKING_VERSION as version } from "./group.ts";
import type { LocationReference } from "./workload.ts";

interface WithConditions {
  readonly conditions?: readonly Condition[];
}

export interface Location extends KubeObject {
  readonly spec?: {
    readonly locationClassName?: string;
    /** By topology key; see `CITY_TOPOLOGY`. */
    readonly topology?: Readonly<Record<string, string>>;
    readonly provider?: object;
  };
  readonly status?: WithConditions;
}

export interface Network extends KubeObject {
  readonly spec?: {
    readonly ipam?: object;
    readonly ipFamilies?: readonly ("IPv4" | "IPv6")[];
    readonly mtu?: number;
  };
  readonly status?: WithConditions;
}

export interface NetworkBinding extends KubeObject {
  readonly spec?: {
    readonly network: { readonly namespace?: string; readonly name: string };
    readonly location: LocationReference;
  };
  readonly status?: WithConditions & {
    readonly networkContextRef?: { readonly namespace: string; readonly name: string };
  };
}

export interface NetworkContext extends KubeObject {
  readonly spec?: { readonly network?: { readonly name: string }; readonly location?: LocationReference };
  readonly status?: WithConditions;
}

export interface SubnetClaim extends KubeObject {
  readonly spec?: {
    readonly subnetClass: string;
    readonly networkContext?: { readonly name: string };
    readonly location?: LocationReference;
    readonly ipFamily: "IPv4" | "IPv6";
    readonly startAddress?: string;
    readonly prefixLength?: number;
  };
  readonly status?: WithConditions & { readonly subnetRef?: { readonly name: string } };
}

export interface Subnet extends KubeObject {
  readonly spec?: object;
  readonly status?: WithConditions & { readonly startAddress?: string; readonly prefixLength?: number };
}

const resource = <T extends KubeObject>(plural: string, kind: string): Resource<T> =>
  defineResource({ group, version, plural, kind, namespaced: true });

export const locations: Resource<Location> = resource("locations", "Location");
export const networks: Resource<Network> = resource("networks", "Network");
export const networkBindings: Resource<NetworkBinding> = resource("networkbindings", "NetworkBinding");
export const networkContexts: Resource<NetworkContext> = resource("networkcontexts", "NetworkContext");
export const subnetClaims: Resource<SubnetClaim> = resource("subnetclaims", "SubnetClaim");
export const subnets: Resource<Subnet> = resource("subnets", "Subnet");
