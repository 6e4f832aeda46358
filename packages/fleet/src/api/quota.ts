/** `ResourceClaim` of `quota.miloapis.com`, as far as the fleet uses it. The quota service is another product. */
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";
import { QUOTA_GROUP as group, QUOTA_VERSION as version } from "./group.ts";

interface Reference {
  readonly apiGroup: string;
  readonly kind: string;
  readonly name: string;
}

/** The spec is immutable. The quota is held until the claim is deleted. */
export interface ResourceClaim extends KubeObject {
  readonly spec?: {
    readonly consumerRef: Reference;
    readonly resourceRef: Reference;
    /** Granted together or not at all. */
    readonly requests: readonly { readonly resourceType: string; readonly amount: number }[];
  };
  readonly status?: { readonly conditions?: readonly Condition[]; readonly allocations?: readonly object[] };
}

export const resourceClaims: Resource<ResourceClaim> = defineResource({
  group,
  version,
  plural: "resourceclaims",
  kind: "ResourceClaim",
  namespaced: true,
});

/** Resource types of requests. `vcpus` counts thousandths, `memory` MiB. */
export const requestTypes = {
  instances: "compute.datumapis.com/instances",
  vcpus: "compute.datumapis.com/vcpus",
  memory: "compute.datumapis.com/memory",
} as const;
