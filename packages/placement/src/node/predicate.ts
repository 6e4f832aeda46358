import type { Node } from "@berth/kube";
import { changed, or, type Predicate } from "@berth/runtime";

/**
 * True for changes of a Node that can affect a mark: labels, annotations, taints, `unschedulable`, the start of a
 * deletion. Ignores the status, including heartbeats. A capability that reads the status adds its own predicate.
 */
export const nodeMarksChanged: Predicate<Node> = or<Node>(
  changed((node) => node.metadata?.labels),
  changed((node) => node.metadata?.annotations),
  changed((node) => node.spec?.taints),
  changed((node) => node.spec?.unschedulable),
  changed((node) => node.metadata?.deletionTimestamp),
);
