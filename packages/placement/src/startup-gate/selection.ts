/** Which nodes a startup gate is about. */
import type { Node } from "@berth/kube";
import { ownValue } from "../node/mark.ts";
import { matchesSelector } from "../node/selector.ts";
import type { Gate } from "./gate.ts";

/**
 * A node of the control plane has a label or a taint with one of these keys, whatever the value: kubeadm sets the first,
 * and set the second before Kubernetes 1.24.
 */
export const controlPlaneKeys: readonly string[] = [
  "node-role.kubernetes.io/control-plane",
  "node-role.kubernetes.io/master",
];

/** By labels, and by taints where the control plane is skipped. */
export function selects({ spec }: Gate, node: Node): boolean {
  if (spec.controlPlane === "Skip" && isControlPlane(node)) return false;
  return matchesSelector(spec.nodeSelector, node.metadata?.labels);
}

/** Does admission put the taint of the gate on the node, when it is created? `cel.ts` says the same to the API server. */
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
