/** Which nodes a startup gate selects. */
import type { Node } from "@berth/kube";
import type { Note } from "../node/explain/trace.ts";
import { ownValue } from "../node/mark.ts";
import { matchesSelector } from "../node/selector.ts";
import type { Gate } from "./gate.ts";

/**
 * A control-plane node has a label or a taint with one of these keys, whatever the value. kubeadm sets the first;
 * before Kubernetes 1.24 it also set the second.
 */
export const controlPlaneKeys: readonly string[] = [
  "node-role.kubernetes.io/control-plane",
  "node-role.kubernetes.io/master",
];

/** Compares labels, and also taints if the gate skips the control plane. */
export function selects({ spec }: Gate, node: Node, note?: Note): boolean {
  if (spec.controlPlane === "Skip") {
    const holds = !isControlPlane(node);
    note?.({ what: "it is no node of the control plane", holds });
    if (!holds && note === undefined) return false;
    return matchesSelector(spec.nodeSelector, node.metadata?.labels, note) && holds;
  }
  return matchesSelector(spec.nodeSelector, node.metadata?.labels, note);
}

/** Does admission put the gate's taint on the node at its creation? `cel.ts` has the same rule for the API server. */
export function isGatedAtCreation(gate: Gate, node: Node): boolean {
  const { admissionExcept } = gate.spec;
  if (admissionExcept !== undefined && matchesSelector(admissionExcept, node.metadata?.labels)) return false;
  return selects(gate, node);
}

function isControlPlane({ metadata, spec }: Node): boolean {
  return controlPlaneKeys.some(
    (key) =>
      ownValue(metadata?.labels, key) !== undefined || spec?.taints?.some((taint) => taint.key === key),
  );
}
