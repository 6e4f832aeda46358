/** What node autoscalers have to be told about the taints of startup gates. */
import type { GateList } from "./tolerate.ts";

const STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/";

/** Keys that cluster-autoscaler knows to be temporary (its `utils/taints`), the first from 1.29 on. */
const KNOWN_TO_CLUSTER_AUTOSCALER = [STARTUP_TAINT, "ignore-taint.cluster-autoscaler.kubernetes.io/"];

/** Karpenter knows this prefix from 1.13 on (kubernetes-sigs/karpenter#3025). */
const KNOWN_TO_KARPENTER = "readiness.k8s.io/";

/**
 * What to set in cluster-autoscaler and Karpenter, in lines for a person; none without gates. An autoscaler that does not
 * know that a taint is temporary takes a gated node for one that no pod can run on, and makes one more, or never makes
 * one at all.
 */
export function autoscalerHints(list: GateList): readonly string[] {
  return list.gates.length === 0 ? [] : [...clusterAutoscalerHints(list), ...karpenterHints(list)];
}

function clusterAutoscalerHints({ gates }: GateList): readonly string[] {
  const keys = [...new Set(gates.map(({ spec }) => spec.taint.key))].sort();
  const unknown = keys.filter((key) => !KNOWN_TO_CLUSTER_AUTOSCALER.some((prefix) => key.startsWith(prefix)));
  if (unknown.length === 0)
    return ["cluster-autoscaler: nothing to set, it knows these keys by their prefix"];
  const prefixes = Map.groupBy(unknown, (key) => key.slice(0, key.indexOf("/") + 1));
  return [
    "cluster-autoscaler: flags, from 1.29 on, so that it takes the taints for temporary",
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
