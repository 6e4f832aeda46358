/**
 * What Berth reads for descheduling, while a policy is in force: pods that have not ended, labels of namespaces, and
 * PriorityClasses if a policy names one.
 */
import { type Concerns, labelsIn, namespacesRead, pick, type Reads, type Views } from "@berth/host";
import { type Namespace, type Pod, type PriorityClass, pods, priorityClasses } from "@berth/kube";
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
  readonly priorityClasses: PriorityClass;
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
const IDENTITY = ["name", "uid", "resourceVersion"] as const;
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
  priorityClasses: {
    name: "deschedule-priority-classes",
    resource: priorityClasses,
    consequence,
    wanted: ({ policies }) =>
      policies.some(({ spec }) => spec.priorityThreshold?.name !== undefined)
        ? [{ project: ({ metadata = {}, value = 0 }) => ({ metadata: pick(metadata, IDENTITY), value }) }]
        : [],
  },
};

/** The pods to judge again. Labels of namespaces, and PriorityClasses, change too rarely for an index. */
export const descheduleConcerns: Concerns<Objects, Pod> = {
  pods: ({ object }) => [object],
  namespaces: ({ object }, views) =>
    [...views.pods.list()].filter(({ metadata }) => metadata?.namespace === object.metadata?.name),
  priorityClasses: () => "all",
};

/** As `JudgeObservations.priorityOf`. */
export function priorityIn({ priorityClasses: view }: DescheduleViews) {
  return (className: string): number | null | undefined => {
    const found = view.find(className);
    return found && (found.value ?? 0);
  };
}

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
