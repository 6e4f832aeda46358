/** The kinds of Karmada that a hub reads and writes, with the fields that Berth knows. */
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";

interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
}

export interface ResourceSelector {
  readonly apiVersion: string;
  readonly kind: string;
  readonly labelSelector?: LabelSelector;
}

export interface Propagation {
  readonly clusterAffinity?: { readonly labelSelector?: LabelSelector };
  readonly clusterTolerations?: readonly object[];
  readonly spreadConstraints?: readonly object[];
}

/** Which objects of its namespace go to which clusters. */
export interface PropagationPolicy extends KubeObject {
  readonly spec?: {
    readonly resourceSelectors?: readonly ResourceSelector[];
    readonly placement?: Propagation;
  };
}

export const propagationPolicies: Resource<PropagationPolicy> = defineResource({
  group: "policy.karmada.io",
  version: "v1alpha1",
  plural: "propagationpolicies",
  kind: "PropagationPolicy",
  namespaced: true,
});

/** What one cluster says of an object. */
export interface AggregatedItem {
  readonly clusterName: string;
  readonly status?: unknown;
  readonly applied?: boolean;
  readonly appliedMessage?: string;
}

/** The clusters that have one object, and what each of them says. Karmada makes it. */
export interface ResourceBinding extends KubeObject {
  readonly spec?: {
    readonly resource?: { readonly kind?: string; readonly name?: string; readonly uid?: string };
    readonly clusters?: readonly { readonly name: string }[];
  };
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly aggregatedStatus?: readonly AggregatedItem[];
  };
}

export const resourceBindings: Resource<ResourceBinding> = defineResource({
  group: "work.karmada.io",
  version: "v1alpha2",
  plural: "resourcebindings",
  kind: "ResourceBinding",
  namespaced: true,
});

/** The name that Karmada gives to the binding of a deployment. */
export function bindingOf(deployment: string): string {
  return `${deployment}-workloaddeployment`;
}

/** A cluster that has joined Karmada. */
export interface MemberCluster extends KubeObject {
  readonly status?: { readonly conditions?: readonly Condition[] };
}

export const memberClusters: Resource<MemberCluster> = defineResource({
  group: "cluster.karmada.io",
  version: "v1alpha1",
  plural: "clusters",
  kind: "Cluster",
  namespaced: false,
});

/** How Karmada reads the status of a kind, and sums it. */
export interface InterpreterCustomization extends KubeObject {
  readonly spec?: {
    readonly target?: { readonly apiVersion: string; readonly kind: string };
    readonly customizations?: Readonly<Record<string, { readonly luaScript?: string } | undefined>>;
  };
}

export const interpreterCustomizations: Resource<InterpreterCustomization> = defineResource({
  group: "config.karmada.io",
  version: "v1alpha1",
  plural: "resourceinterpretercustomizations",
  kind: "ResourceInterpreterCustomization",
  namespaced: false,
});
