/** Hints for node autoscalers about the taints of startup gates. */
import type { GateList } from "./tolerate.ts";

const STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/";

/** Keys that cluster-autoscaler treats as temporary (its `utils/taints`); the first one since 1.29. */
const KNOWN_TO_CLUSTER_AUTOSCALER = [STARTUP_TAINT, "ignore-taint.cluster-autoscaler.kubernetes.io/"];

/** Karpenter knows this prefix since 1.13 (kubernetes-sigs/karpenter#3025). */
export const KNOWN_TO_KARPENTER = "readiness.k8s.io/";

/**
 * Settings for cluster-autoscaler and Karpenter, as lines for a person; none without gates. If an autoscaler does not
 * know that a taint is temporary, it assumes that no pod can run on a gated node. It then adds one more node, or never
 * adds any.
 */
export function autoscalerHints(list: GateList): readonly string[] {
  return list.gates.length === 0 ? [] : [...clusterAutoscalerHints(list), ...karpenterHints(list)];
}

export function clusterAutoscalerHints({ gates }: GateList): readonly string[] {
  const keys = [...new Set(gates.map(({ spec }) => spec.taint.key))].sort();
  const unknown = keys.filter((key) => !KNOWN_TO_CLUSTER_AUTOSCALER.some((prefix) => key.startsWith(prefix)));
  if (unknown.length === 0)
    return ["cluster-autoscaler: nothing to set, it knows these keys by their prefix"];
  const prefixes = Map.groupBy(unknown, (key) => key.slice(0, key.indexOf("/") + 1));
  return [
    "cluster-autoscaler: flags, from 1.29 on, so that it treats the taints as temporary",
    ...unknown.map((key) => `  --startup-taint=${key}`),
    ...[...prefixes]
      .filter(([prefix, of]) => prefix !== "" && of.length > 1)
      .map(
        ([prefix, of]) => `  (or, from 1.36 on, --startup-taint-prefix=${prefix} for ${of.length} of them)`,
      ),
    `  where flags cannot be set (GKE, AKS), use a taint key under ${STARTUP_TAINT}`,
  ];
}

function karpenterHints({ gates }: GateList): readonly string[] {
  const known = gates.filter(({ spec }) => spec.taint.key.startsWith(KNOWN_TO_KARPENTER));
  const unknown = gates.filter((gate) => !known.includes(gate));
  const since = `Karpenter: nothing to set for keys under ${KNOWN_TO_KARPENTER}, which it knows from 1.13 on`;
  if (unknown.length === 0) return [since];
  return [
    ...(known.length > 0 ? [since] : []),
    "Karpenter: in each NodePool with nodes that the gates select, of those gates",
    "  spec:",
    "    template:",
    "      spec:",
    "        startupTaints:",
    ...unknown.flatMap(({ spec }) => {
      const { key, value, effect } = spec.taint;
      return [
        `          - key: ${JSON.stringify(key)}`,
        `            value: ${JSON.stringify(value)}`,
        `            effect: ${effect}`,
      ];
    }),
  ];
}
