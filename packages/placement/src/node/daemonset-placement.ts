/** Predicts whether the DaemonSet controller creates a pod on a node. */
import type { DaemonSet, Node, PodSpec, Taint } from "@berth/kube";
import { isTaintOfGoingNode } from "../api/autoscaler.ts";
import { ownValue } from "./mark.ts";
import { matchesNodeSelectorTerms } from "./selector.ts";
import { domainOf, STARTUP_DOMAINS } from "./taint-domains.ts";
import { tolerates, tolerationText } from "./tolerations.ts";

export type Expectation =
  | { readonly state: "expected" }
  /** `why` follows the name of the DaemonSet in a message: `it asks for disk=ssd, which the node does not have`. */
  | { readonly state: "notExpected"; readonly why: string }
  /** A gate keeps its pod away. A gate that waits for this pod would never open. */
  | { readonly state: "blocked"; readonly taint: Taint };

/**
 * Domains of temporary taints: for the start or the end of a node, or a present problem. Such a taint only delays the pod of a
 * DaemonSet that does not tolerate it. Setters: kubelet, node controller, cloud providers, node readiness controller,
 * cluster-autoscaler; also Cilium and Karpenter, which do not follow the conventions for startup taints.
 */
const TEMPORARY: ReadonlySet<string> = new Set([
  ...STARTUP_DOMAINS,
  "node.kubernetes.io",
  "node.cloudprovider.kubernetes.io",
  "node.cilium.io",
  "karpenter.sh",
]);

/**
 * Predicts whether the DaemonSet controller wants a pod on this node after temporary taints are removed
 * (`NodeShouldRunDaemonPod` of kubernetes/pkg/controller/daemon, v1.36). Reads node name, node selector, required node
 * affinity, and `NoSchedule` and `NoExecute` taints. Ignores the tolerations that the controller adds itself: they are
 * for temporary taints of `node.kubernetes.io/`. Uses the present labels; a later label can change the result.
 */
export function expectation(daemonSet: DaemonSet, node: Node, gateTaints: readonly Taint[]): Expectation {
  const spec = daemonSet.spec?.template.spec;
  const why = whyElsewhere(daemonSet, node);
  if (why !== undefined) return { state: "notExpected", why };
  const hard = (node.spec?.taints ?? []).filter(
    ({ effect }) => effect === "NoSchedule" || effect === "NoExecute",
  );
  const untolerated = hard.filter((taint) => !tolerates(spec?.tolerations, taint));
  const isOfGate = (taint: Taint): boolean =>
    gateTaints.some(({ key, effect }) => key === taint.key && effect === taint.effect);
  const isLasting = ({ key }: Taint): boolean => !TEMPORARY.has(domainOf(key)) && !isTaintOfGoingNode(key);
  const lasting = untolerated.find((taint) => !isOfGate(taint) && isLasting(taint));
  if (lasting !== undefined) {
    return { state: "notExpected", why: `it does not tolerate the taint ${taintText(lasting)}` };
  }
  const taint = untolerated.find(isOfGate);
  return taint === undefined ? { state: "expected" } : { state: "blocked", taint };
}

/** The requirement of the DaemonSet, except for taints, that this node does not meet; `undefined` when it meets all. */
export function whyElsewhere(daemonSet: DaemonSet, node: Node): string | undefined {
  const spec: Partial<PodSpec> = daemonSet.spec?.template.spec ?? {};
  const { nodeName = "", nodeSelector = {}, affinity } = spec;
  const { name, labels } = node.metadata ?? {};
  if (nodeName !== "" && nodeName !== name) return `it is for the node ${nodeName}`;
  const asked = Object.entries(nodeSelector).find(([key, value]) => ownValue(labels, key) !== value);
  if (asked !== undefined) return `it asks for ${asked.join("=")}, which the node does not have`;
  const required = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || matchesNodeSelectorTerms(required.nodeSelectorTerms, node)
    ? undefined
    : "its required node affinity does not match";
}

/** `team=a:NoSchedule`, `team:NoSchedule` */
export const taintText: (taint: Taint) => string = tolerationText;
