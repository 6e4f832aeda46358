/** What Berth reads for descheduling, while a policy is in force: pods that have not ended, and labels of namespaces. */
import { type Concerns, labelsIn, namespacesRead, type Reads, type Views } from "@berth/host";
import { type Namespace, type Pod, pods } from "@berth/kube";
import type { IndexFunction } from "@berth/runtime";
import { nodeOf } from "../node/pod-nodes.ts";
import type { Ground } from "./fit.ts";
import { EVERYWHERE, forbiddenNamespace } from "./fit-topology.ts";
import { ownerOf } from "./ledger.ts";
import { podProjection } from "./pod-fields.ts";
import type { DeschedulePolicies } from "./policy.ts";

interface Objects {
  readonly pods: Pod;
  readonly namespaces: Namespace;
}
export type DescheduleViews = Views<Objects>;

export const podIndexes: Readonly<Record<string, IndexFunction<Pod>>> = {
  node: nodeOf,
  owner: (pod) => [ownerOf(pod)],
  forbidding: (pod) => [forbiddenNamespace(pod) ?? []].flat(),
};
/** Field selector of pods that have not ended. */
export const RUNNING = "status.phase!=Succeeded,status.phase!=Failed";
const consequence = "which pods would be evicted is unknown";
const isNeeded = ({ policies }: DeschedulePolicies): boolean => policies.length > 0;

export const descheduleReads: Reads<Objects, DeschedulePolicies> = {
  pods: {
    name: "deschedule-pods",
    resource: pods,
    consequence,
    wanted: (inForce) =>
      isNeeded(inForce)
        ? [{ scope: { fieldSelector: RUNNING }, project: podProjection(), indexes: podIndexes }]
        : [],
  },
  namespaces: namespacesRead({ name: "deschedule-namespaces", consequence }, isNeeded),
};

/** The pods to judge again. Labels of namespaces change too rarely for an index. */
export const descheduleConcerns: Concerns<Objects, Pod> = {
  pods: ({ object }) => [object],
  namespaces: ({ object }, views) =>
    [...views.pods.list()].filter(({ metadata }) => metadata?.namespace === object.metadata?.name),
};

/** What a lookup reads, beside the nodes. */
export function groundOf(views: DescheduleViews, nodes: Ground["nodes"]): Ground {
  const namespaceLabels = labelsIn(views.namespaces);
  return {
    nodes,
    podsOn: (node) => views.pods.byIndex("node", node),
    namespaceLabels: (name) => namespaceLabels(name) ?? undefined,
    forbidding: (namespace) => [EVERYWHERE, namespace].flatMap((it) => views.pods.byIndex("forbidding", it)),
  };
}
