/** Clusters for tests of `findFit`. */
import type { Node, Pod } from "@berth/kube";
import type { NodeBuilder, PodBuilder } from "@berth/testcluster";
import type { Ground } from "../fit.ts";

/** Labels of the namespaces that exist. */
export const NAMESPACES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  default: {},
  shop: { team: "shop" },
};

/** Pods without a node are not part of it. */
export function groundOf(nodes: readonly Node[], pods: readonly Pod[]): Ground {
  const byNode = Map.groupBy(pods, ({ spec }) => spec?.nodeName ?? "");
  return {
    nodes,
    podsOn: (node) => byNode.get(node) ?? [],
    namespaceLabels: (name) => NAMESPACES[name],
  };
}

/** The uid of each pod is its name. @param change of each pod, default none. */
export function builtGround(
  things: readonly (NodeBuilder | PodBuilder)[],
  change: (pod: Pod) => Pod = (pod) => pod,
): Ground {
  const built = things.map((it) => it.build());
  const pods = built.filter((it): it is Pod => it.kind === "Pod");
  const nodes = built.filter((it): it is Node => it.kind === "Node");
  return groundOf(
    nodes,
    pods.map((it) => change({ ...it, metadata: { ...it.metadata, uid: it.metadata?.name ?? "" } })),
  );
}
