/** The criteria of the scheduler that depend only on a pod and a node: labels, cordon and taints. */
import type { Node, Pod } from "@berth/kube";
import { taintText } from "./daemonset-placement.ts";
import type { Note } from "./explain/trace.ts";
import { ownValue } from "./mark.ts";
import { matchesNodeSelectorTerms } from "./selector.ts";
import { tolerates } from "./tolerations.ts";

/** Why the node does not take the pod, beginning with a verb (`is cordoned`); undefined when it does. */
export type NodeCheck = (node: Node, note?: Note) => string | undefined;

/** What `spec.unschedulable` of a node is for the scheduler (its plugin NodeUnschedulable). */
const CORDON = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" } as const;

/** All criteria of this file. A node that is being deleted takes no pod. With `note`, all are checked and noted. */
export function placementCheck(pod: Pod): NodeCheck {
  const byLabels = labelCheck(pod);
  const byTaints = taintCheck(pod);
  const passesCordon = tolerates(pod.spec?.tolerations, CORDON);
  return (node, note) => {
    const isDeleted = node.metadata?.deletionTimestamp !== undefined;
    note?.({ what: "the node is not being deleted", holds: !isDeleted });
    if (isDeleted && note === undefined) return "is being deleted";
    const byLabel = byLabels(node, note);
    if (byLabel !== undefined && note === undefined) return byLabel;
    const isCordoned = node.spec?.unschedulable === true && !passesCordon;
    note?.({ what: "the node is not cordoned", holds: !isCordoned });
    if (isCordoned && note === undefined) return "is cordoned";
    const byTaint = byTaints(node, note);
    return isDeleted ? "is being deleted" : (byLabel ?? (isCordoned ? "is cordoned" : byTaint));
  };
}

/** The plugin NodeAffinity: node selector and required node affinity. */
export function labelCheck({ spec }: Pod): NodeCheck {
  const asked = Object.entries(spec?.nodeSelector ?? {}).map(
    ([key, value]) => [key, value, `lacks label ${key}=${value}`] as const,
  );
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return (node, note) => {
    const labels = node.metadata?.labels;
    let first: string | undefined;
    for (const [key, value, refusal] of asked) {
      const found = ownValue(labels, key);
      const holds = found === value;
      note?.({ what: `label ${key}=${value}`, ...(found !== undefined && { value: found }), holds });
      if (!holds) first ??= refusal;
      if (!holds && note === undefined) return first;
    }
    if (required === undefined) return first;
    const holds = matchesNodeSelectorTerms(required.nodeSelectorTerms, node);
    note?.({ what: "required node affinity", holds });
    return first ?? (holds ? undefined : "does not match required node affinity");
  };
}

/** The plugin TaintToleration. */
export function taintCheck({ spec }: Pod): NodeCheck {
  return (node, note) => {
    let first: string | undefined;
    for (const taint of node.spec?.taints ?? []) {
      if (taint.effect !== "NoSchedule" && taint.effect !== "NoExecute") continue;
      const holds = tolerates(spec?.tolerations, taint);
      note?.({ what: `tolerates taint ${taintText(taint)}`, holds });
      if (!holds) first ??= `has taint ${taintText(taint)}`;
      if (!holds && note === undefined) return first;
    }
    return first;
  };
}
