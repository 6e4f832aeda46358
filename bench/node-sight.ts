/** When versions of nodes arrive at a watcher. */
import { type KubeClient, type Node, nodes } from "@berth/kube";
import { type ObjectSight, watchObjects } from "./object-sight.ts";

export type NodeSight = ObjectSight<Node>;

/** Watches all nodes from their present versions on. Resolves once the server has accepted it. */
export function watchNodes(client: KubeClient): Promise<NodeSight> {
  return watchObjects<Node>(client, {
    resource: nodes,
    project: ({ metadata, spec, status }) => ({
      ...(metadata && { metadata }),
      ...(spec && { spec }),
      ...(status?.conditions && { status: { conditions: status.conditions } }),
    }),
  });
}
