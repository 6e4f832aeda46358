import { InformerSet, keepFields } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import { type Component, keyOf } from "@berth/runtime";
import { UNSCHEDULED } from "../node/pod-nodes.ts";
import type { NodeHost } from "../node/wired.ts";
import { type DirectBindingObservations, refusingGates } from "./direct-binding.ts";
import { type Gates } from "./gate.ts";

export interface DirectBindings {
  readonly observations: DirectBindingObservations;
  /** Pods without a node, for their tolerations. Watched while a gate refuses, so that a binding costs no request. */
  readonly watch: Component;
  gatesChanged(): void;
}

const ALL = "all";

/** Every replica answers, from memory alone. It does not refuse an object that it does not know. */
export function createDirectBindings(
  around: Pick<NodeHost, "informers" | "cluster" | "nodes" | "metrics" | "log" | "clock"> & {
    readonly gates: () => Gates | undefined;
  },
): DirectBindings {
  const { cluster, gates, nodes } = around;
  const project = keepFields<Pod>(["metadata.ownerReferences", "spec.tolerations"]);
  const unscheduled = { key: ALL, scope: { fieldSelector: UNSCHEDULED }, project };
  const found = new InformerSet<Pod>({
    ...around,
    name: "unscheduled-pods-of-gates",
    resource: pods,
    onChange: () => {},
    onSynced: () => {},
  });
  const observations: DirectBindingObservations = {
    node: (name) => nodes.get(keyOf(cluster, { metadata: { name } })),
    pod: (namespace, name) => found.get(ALL)?.get(keyOf(cluster, { metadata: { namespace, name } })),
  };
  return {
    observations,
    watch: found,
    gatesChanged() {
      const known = gates();
      if (known !== undefined) found.want(refusingGates(known).length > 0 ? [unscheduled] : []);
    },
  };
}
