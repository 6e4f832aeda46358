/** Parts of pods as architecture placement writes them, for tests. */
import type { Affinity, NodeSelectorRequirement, NodeSelectorTerm, Toleration } from "@berth/kube";
import type { PodBuilder } from "@berth/testcluster";
import { ARCHITECTURE_GATE } from "../document.ts";

export const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
export const PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution";

export const GATE: { readonly name: string } = { name: ARCHITECTURE_GATE };

export const os: NodeSelectorRequirement = { key: "kubernetes.io/os", operator: "In", values: ["linux"] };

export function arch(...values: readonly string[]): NodeSelectorRequirement {
  return { key: "kubernetes.io/arch", operator: "In", values };
}

export function requiringTerms(...nodeSelectorTerms: readonly NodeSelectorTerm[]): { affinity: Affinity } {
  return { affinity: { nodeAffinity: { [REQUIRED]: { nodeSelectorTerms } } } };
}

/** One term of these. */
export function requiring(...matchExpressions: readonly NodeSelectorRequirement[]): Affinity {
  return requiringTerms({ matchExpressions }).affinity;
}

export function tolerating(value: string): Toleration {
  return { key: "supported-arch", value, effect: "NoSchedule" };
}

export function gatedBy(
  pod: PodBuilder,
  ...schedulingGates: readonly { readonly name: string }[]
): PodBuilder {
  return pod.with((it) => ({ ...it, spec: { containers: [], ...it.spec, schedulingGates } }));
}
