/** The nodes of pods. */
import type { Pod } from "@berth/kube";
import type { Change } from "@berth/runtime";

/** Field selector of pods without a node. The watch drops a pod after the scheduler binds it. */
export const UNSCHEDULED = "spec.nodeName=,status.phase=Pending";

/** The node of the pod, as keys of an index. Empty before the scheduler binds the pod. */
export function nodeOf({ spec }: Pod): readonly string[] {
  return spec?.nodeName ? [spec.nodeName] : [];
}

/** The nodes to check after a change: the node of the pod and, after an update, its previous node. */
export function nodesOfChange(change: Change<Pod>): ReadonlySet<string> {
  const before = change.type === "updated" ? nodeOf(change.old) : [];
  return new Set([...nodeOf(change.object), ...before]);
}
