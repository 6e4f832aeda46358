/** Decides which PropagationPolicy a city has in one namespace of the hub. Pure. */
import { isDeepStrictEqual } from "node:util";
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../../api/group.ts";
import type { Propagation, PropagationPolicy, ResourceBinding, ResourceSelector } from "../../api/karmada.ts";
import { labels } from "../../api/keys.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";

export function policyName(city: string): string {
  return `city-${city.toLowerCase()}`;
}

/** Of a deployment of the hub. Its label selects the policy. */
export function policyOf({ metadata }: WorkloadDeployment): string {
  return policyName(metadata?.labels?.[labels.city] ?? "");
}

export interface PolicyView {
  readonly namespace: string;
  readonly policy: PropagationPolicy | undefined;
  /** Of the hub, in that namespace, with the name of this policy. Those that are being deleted too. */
  readonly deployments: readonly WorkloadDeployment[];
  /** Those of the deployments, also of deployments that are gone. */
  readonly bindings: readonly ResourceBinding[];
}

/** Empty: settled. */
export interface PolicyDecision {
  readonly create?: PropagationPolicy;
  readonly patch?: object;
  /** An uncached list must show no deployment first. */
  readonly delete?: PropagationPolicy;
}

export function decidePolicy(view: PolicyView): PolicyDecision {
  const { namespace, policy, deployments, bindings } = view;
  if (policy === undefined) {
    const [city] = deployments
      .filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
      .map(({ metadata }) => metadata?.labels?.[labels.city] ?? "")
      .sort();
    return city ? { create: buildPolicy(namespace, city) } : {};
  }
  const city = cityOf(policy);
  if (city === undefined || policy.metadata?.deletionTimestamp !== undefined) return {};
  if (deployments.every(({ metadata }) => metadata?.labels?.[labels.city] !== city))
    return bindings.length === 0 ? { delete: policy } : {};
  // One cell for each would withdraw what runs in the others: a person says which cell it is.
  const isDouble = bindings.some(({ spec }) => (spec?.clusters ?? []).length > 1);
  const isOne = policy.spec?.placement?.spreadConstraints !== undefined;
  return isDouble && !isOne ? {} : patchOf(policy, city);
}

/** The city of a policy that Berth or the original made. `undefined`: it is another one. */
export function cityOf({ metadata, spec }: PropagationPolicy): string | undefined {
  const [selector, ...others] = spec?.resourceSelectors ?? [];
  const city = selector?.labelSelector?.matchLabels?.[labels.city];
  const isOurs = others.length === 0 && city !== undefined && metadata?.name === policyName(city);
  return isOurs && selector && isDeepStrictEqual(known(selector), selectorOf(city)) ? city : undefined;
}

function buildPolicy(namespace: string, city: string): PropagationPolicy {
  return {
    apiVersion: "policy.karmada.io/v1alpha1",
    kind: "PropagationPolicy",
    metadata: { name: policyName(city), namespace },
    spec: { resourceSelectors: [selectorOf(city)], placement: placementOf(city) },
  };
}

function patchOf(present: PropagationPolicy, city: string): PolicyDecision {
  const wanted = placementOf(city);
  const { clusterAffinity, clusterTolerations, spreadConstraints } = present.spec?.placement ?? {};
  return isDeepStrictEqual({ clusterAffinity, clusterTolerations, spreadConstraints }, wanted)
    ? {}
    : { patch: { spec: { placement: wanted } } };
}

function selectorOf(city: string): ResourceSelector {
  return {
    apiVersion: `${COMPUTE_GROUP}/${COMPUTE_VERSION}`,
    kind: "WorkloadDeployment",
    labelSelector: { matchLabels: { [labels.city]: city } },
  };
}

/** Karmada adds the namespace. */
function known({ apiVersion, kind, labelSelector }: ResourceSelector): ResourceSelector {
  return { apiVersion, kind, ...(labelSelector && { labelSelector }) };
}

/** One cell of the city, and it stays there: Karmada would move it after five minutes, and a cell that is cut off runs on. */
function placementOf(city: string): Required<Propagation> {
  const stays = ["not-ready", "unreachable"].map((key) => ({
    key: `cluster.karmada.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
  }));
  return {
    clusterAffinity: { labelSelector: { matchLabels: { [labels.city]: city } } },
    clusterTolerations: stays,
    spreadConstraints: [{ spreadByField: "cluster", minGroups: 1, maxGroups: 1 }],
  };
}
