/** When versions of nodes arrive at a watcher. */
import { type KubeClient, type Node, nodes } from "@berth/kube";
import { type ObjectSight, watchObjects } from "./object-sight.ts";

export type NodeSight = ObjectSight<Node>;

/**
 * Watches nodes from their present versions on. Resolves once the server has accepted it.
 *
 * @param labelSelector default all of them.
 */
export function watchNodes(client: KubeClient, labelSelector?: string): Promise<NodeSight> {
  return watchObjects<Node>(client, {
    resource: nodes,
    ...(labelSelector !== undefined && { labelSelector }),
    project: ({ metadata, spec, status }) => ({
      ...(metadata && { metadata }),
      ...(spec && { spec }),
      ...(status?.conditions && { status: { conditions: status.conditions } }),
    }),
  });
}
