/** Which held nodes a waiting pod waits for. Plain data, for `explain pod`. */
import type { Node, Pod, Taint } from "@berth/kube";
import { placementCheck } from "../node/placement-check.ts";
import { tolerates } from "../node/tolerations.ts";
import type { Gate } from "./gate.ts";

/** A node that would take the pod by labels and taints if no gate held it. */
export interface HeldNode {
  readonly node: string;
  /** `cluster/network`. */
  readonly gates: readonly string[];
}

/** Empty for a pod that has a node. */
export function heldNodesFor(
  pod: Pod,
  nodes: readonly Node[],
  gates: readonly Pick<Gate, "rule" | "spec">[],
): readonly HeldNode[] {
  if (pod.spec?.nodeName) return [];
  const refusal = placementCheck(pod);
  const gateOf = ({ key, effect }: Taint): string | undefined =>
    gates.find(({ spec: { taint } }) => taint.key === key && taint.effect === effect)?.rule;
  return nodes.flatMap((node): readonly HeldNode[] => {
    const taints = node.spec?.taints ?? [];
    const holding = taints.flatMap((it) => (tolerates(pod.spec?.tolerations, it) ? [] : (gateOf(it) ?? [])));
    const released = {
      ...node,
      spec: { ...node.spec, taints: taints.filter((it) => gateOf(it) === undefined) },
    };
    if (holding.length === 0 || refusal(released) !== undefined) return [];
    return [{ node: node.metadata?.name ?? "", gates: holding }];
  });
}
