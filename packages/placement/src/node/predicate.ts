import type { Node } from "@berth/kube";
import { changed, or, type Predicate } from "@berth/runtime";

/**
 * The changes of a Node that can matter to a mark: labels, annotations, taints, `unschedulable`, the start of a
 * deletion. Heartbeats and the rest of the status do not; a capability that reads status adds its own predicate.
 */
export const nodeMarksChanged: Predicate<Node> = or<Node>(
  changed((node) => node.metadata?.labels),
  changed((node) => node.metadata?.annotations),
  changed((node) => node.spec?.taints),
  changed((node) => node.spec?.unschedulable),
  changed((node) => node.metadata?.deletionTimestamp),
);
