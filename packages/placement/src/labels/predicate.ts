import type { Node } from "@berth/kube";
import { changed, or, type Predicate } from "@berth/runtime";

/**
 * The changes of a Node's status that rules can see. Heartbeats are none: of a condition only type and status count.
 * Labels, annotations and taints are the node writer's own predicate.
 */
export const labelFactsChanged: Predicate<Node> = or<Node>(
  changed((node) => node.status?.capacity),
  changed((node) => node.status?.allocatable),
  changed((node) => node.status?.nodeInfo),
  changed((node) => node.status?.conditions?.map(({ type, status }) => `${type}=${status}`)),
);
