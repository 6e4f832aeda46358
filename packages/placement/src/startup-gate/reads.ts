/** What startup gates read: the pods that signals name, DaemonSets, and the pods without a node that a gate refuses. */
import { type Concerns, type FieldMask, keepFields, type Reads, type Views } from "@berth/host";
import { type DaemonSet, type Pod, type Projection, pods } from "@berth/kube";
import { daemonSetsIn, daemonSetsRead, movesPods } from "../node/daemonsets.ts";
import { nodeOf, nodesOfChange, UNSCHEDULED } from "../node/pod-nodes.ts";
import { refusingGates } from "./direct-binding.ts";
import { GATES, type GateObservations, type Gates } from "./gate.ts";
import { needsDaemonSets, podQueries, readAnnotations } from "./pod-signal.ts";

interface Objects {
  readonly daemonSets: DaemonSet;
  readonly pods: Pod;
  readonly unscheduled: Pod;
}

export const gateReads: Reads<Objects, Gates> = {
  daemonSets: daemonSetsRead(GATES, ({ gates }) => gates.some(needsDaemonSets)),
  /** One scope for each query. The decoder drops all annotations but those that signals read. */
  pods: {
    name: "gate-pods",
    resource: pods,
    consequence: "what startup gates see of them is unknown",
    wanted({ gates }, views) {
      const found = daemonSetsIn(views.daemonSets);
      const keeps = readAnnotations(gates);
      const shared = { project: keepPod(new Set(keeps)), keeps, indexes: { node: nodeOf } };
      const queries = gates.flatMap((gate) => podQueries(gate, found));
      return queries.map((scope) => Object.assign({ scope }, shared));
    },
  },
  /** For their tolerations, so that a binding costs no request. */
  unscheduled: {
    name: "unscheduled-pods-of-gates",
    resource: pods,
    wanted: (gates) =>
      refusingGates(gates).length > 0
        ? [
            {
              scope: { fieldSelector: UNSCHEDULED },
              project: keepFields(["metadata.ownerReferences", "spec.tolerations"]),
            },
          ]
        : [],
  },
};

/** The nodes to decide about again. */
export const gateConcerns: Concerns<Objects, string> = {
  pods: nodesOfChange,
  daemonSets: (change) => (movesPods(change) ? "all" : []),
};

export function gateObservations(
  views: Pick<Views<Objects>, "pods" | "daemonSets">,
  labelsSettled: GateObservations["labelsSettled"],
): GateObservations {
  return {
    pods: (query, node) => views.pods.at(query)?.byIndex("node", node),
    ...daemonSetsIn(views.daemonSets),
    labelsSettled,
  };
}

/** Fields of a pod that signals read: its owner, creation time, node and readiness. */
const podFields: FieldMask = [
  "metadata.annotations",
  "metadata.creationTimestamp",
  "metadata.deletionTimestamp",
  "metadata.ownerReferences",
  "spec.nodeName",
  "status.phase",
  "status.conditions[].type",
  "status.conditions[].status",
  "status.conditions[].lastTransitionTime",
  "status.containerStatuses[].name",
  "status.containerStatuses[].ready",
  "status.containerStatuses[].state.running.startedAt",
  "status.containerStatuses[].state.waiting.reason",
];

function keepPod(annotations: ReadonlySet<string>): Projection<Pod> {
  const keep = keepFields<Pod>(podFields);
  return ({ metadata, status, ...pod }) => {
    const kept = Object.entries(metadata?.annotations ?? {}).filter(([key]) => annotations.has(key));
    const whole = { ...metadata, annotations: Object.fromEntries(kept) };
    const conditions = status?.conditions?.filter(({ type }) => type === "Ready") ?? [];
    return keep({ ...pod, metadata: whole, status: { ...status, conditions } });
  };
}
