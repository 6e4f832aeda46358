/** The criteria of the scheduler that depend only on a pod and a node: labels, cordon and taints. */
import type { Node, Pod } from "@berth/kube";
import { taintText } from "./daemonset-placement.ts";
import { ownValue } from "./mark.ts";
import { matchesNodeSelectorTerms } from "./selector.ts";
import { tolerates } from "./tolerations.ts";

/** Why the node does not take the pod, beginning with a verb (`is cordoned`); undefined when it does. */
export type NodeCheck = (node: Node) => string | undefined;

/** What `spec.unschedulable` of a node is for the scheduler (its plugin NodeUnschedulable). */
const CORDON = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" } as const;

/** All criteria of this file. A node that is being deleted takes no pod. */
export function placementCheck(pod: Pod): NodeCheck {
  const byLabels = labelCheck(pod);
  const byTaints = taintCheck(pod);
  const passesCordon = tolerates(pod.spec?.tolerations, CORDON);
  return (node) => {
    if (node.metadata?.deletionTimestamp !== undefined) return "is being deleted";
    const refusal = byLabels(node);
    if (refusal !== undefined) return refusal;
    if (node.spec?.unschedulable === true && !passesCordon) return "is cordoned";
    return byTaints(node);
  };
}

/** The plugin NodeAffinity: node selector and required node affinity. */
export function labelCheck({ spec }: Pod): NodeCheck {
  const asked = Object.entries(spec?.nodeSelector ?? {}).map(
    ([key, value]) => [key, value, `lacks label ${key}=${value}`] as const,
  );
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return (node) => {
    const labels = node.metadata?.labels;
    for (const [key, value, refusal] of asked) if (ownValue(labels, key) !== value) return refusal;
    return required === undefined || matchesNodeSelectorTerms(required.nodeSelectorTerms, node)
      ? undefined
      : "does not match required node affinity";
  };
}

/** The plugin TaintToleration. */
export function taintCheck({ spec }: Pod): NodeCheck {
  return (node) => {
    for (const taint of node.spec?.taints ?? []) {
      if (taint.effect !== "NoSchedule" && taint.effect !== "NoExecute") continue;
      if (!tolerates(spec?.tolerations, taint)) return `has taint ${taintText(taint)}`;
    }
    return undefined;
  };
}
