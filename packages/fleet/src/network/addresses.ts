/** Asks for the addresses of one NetworkContext. Pure. */
import { apiVersionOf, type Condition, type KubeObject, pathOf, type Resource } from "@berth/kube";
import { findCondition, isConditionTrue } from "@berth/runtime";
import {
  type Network,
  type NetworkContext,
  networkContexts,
  type Subnet,
  type SubnetClaim,
  subnetClaims,
} from "../api/networking.ts";
import type { LocationReference } from "../api/workload.ts";

/** An object to create. The answer that it exists already counts as success. */
export interface Creation {
  readonly resource: Resource;
  readonly body: KubeObject;
}

/** All objects of these kinds in the cluster. */
export interface AddressObjects {
  readonly networks: readonly Network[];
  readonly subnetClaims: readonly SubnetClaim[];
  readonly subnets: readonly Subnet[];
}

/** Upstream replaces SubnetClaims by another kind. `undefined`: the addresses are there. */
export type AddressAllocator = (
  context: NetworkContext,
  location: LocationReference,
  objects: AddressObjects,
) => { readonly waitsFor: string; readonly create?: Creation } | undefined;

const SUBNET_CLASS = "private";

/** One SubnetClaim `<context>-0` for a NetworkContext at a Location, in the first IP family of its Network. */
export const addressesBySubnetClaim: AddressAllocator = (context, location, objects) => {
  const { name: contextName = "", namespace = "", uid = "" } = context.metadata ?? {};
  const network = find(objects.networks, { namespace, name: context.spec?.network?.name ?? "" });
  const ipFamily = network?.spec?.ipFamilies?.[0] ?? "IPv4";
  const name = `${contextName}-0`;
  const isWanted = ({ metadata, spec }: SubnetClaim): boolean =>
    metadata?.namespace === namespace &&
    spec?.subnetClass === SUBNET_CLASS &&
    spec.ipFamily === ipFamily &&
    spec.networkContext?.name === contextName &&
    pathOf(spec.location ?? {}) === pathOf(location);
  // A claim that has our name is used as it is: Berth cannot create a second one.
  const claim = objects.subnetClaims.find(isWanted) ?? find(objects.subnetClaims, { namespace, name });
  if (claim === undefined) {
    const { kind } = networkContexts;
    const owner = { apiVersion: apiVersionOf(networkContexts), kind, name: contextName, uid };
    const body: SubnetClaim = {
      apiVersion: apiVersionOf(subnetClaims),
      kind: subnetClaims.kind,
      metadata: { namespace, name, ownerReferences: [owner] },
      spec: { subnetClass: SUBNET_CLASS, networkContext: { name: contextName }, location, ipFamily },
    };
    return {
      waitsFor: `SubnetClaim ${namespace}/${name} is being created`,
      create: { resource: subnetClaims, body },
    };
  }
  if (!isReady(claim)) return { waitsFor: notReady("SubnetClaim", claim) };
  const subnetName = claim.status?.subnetRef?.name;
  if (subnetName === undefined)
    return { waitsFor: `SubnetClaim ${pathOf(claim.metadata)} has no Subnet yet` };
  const subnet = find(objects.subnets, { namespace, name: subnetName });
  if (subnet === undefined) return { waitsFor: `Subnet ${namespace}/${subnetName} does not exist yet` };
  return isReady(subnet) ? undefined : { waitsFor: notReady("Subnet", subnet) };
};

export function find<T extends KubeObject>(
  objects: readonly T[],
  at: { readonly namespace: string; readonly name: string },
): T | undefined {
  return objects.find(({ metadata }) => metadata?.name === at.name && metadata.namespace === at.namespace);
}

interface WithConditions extends KubeObject {
  readonly status?: { readonly conditions?: readonly Condition[] };
}

/** Controllers of networking keep an old `observedGeneration` on a condition, so it is not compared. */
export function isReady({ status }: WithConditions): boolean {
  return isConditionTrue(status?.conditions, "Ready");
}

export function notReady(kind: string, { metadata, status }: WithConditions): string {
  const message = findCondition(status?.conditions, "Ready")?.message;
  return `${kind} ${pathOf(metadata)} is not ready${message ? `: ${message}` : ""}`;
}
