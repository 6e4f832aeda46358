/** Whether a DaemonSet puts a pod on a node, by the rules of its controller. */
import type { DaemonSet, Node, PodSpec, Taint } from "@berth/kube";
import { ownValue } from "./mark.ts";
import { matchesNodeSelectorTerms } from "./selector.ts";
import { domainOf, STARTUP_DOMAINS } from "./taint-domains.ts";
import { tolerates, tolerationText } from "./tolerations.ts";

export type Expectation =
  | { readonly state: "expected" }
  /** `why` goes on from the name of the DaemonSet: `it asks for disk=ssd, which the node does not have`. */
  | { readonly state: "notExpected"; readonly why: string }
  /** A gate keeps its pod away, so that a gate which waits for that pod never opens. */
  | { readonly state: "blocked"; readonly taint: Taint };

/**
 * Domains of taints that come off while a node starts, or say that something is wrong with it just now: one that a DaemonSet does not
 * tolerate makes its pod late and not unexpected. Kubelet, node controller and cloud providers; the conventions for
 * startup taints of the node readiness controller and cluster-autoscaler; Cilium and Karpenter, which do not follow them.
 */
const TEMPORARY: ReadonlySet<string> = new Set([
  ...STARTUP_DOMAINS,
  "node.kubernetes.io",
  "node.cloudprovider.kubernetes.io",
  "node.cilium.io",
  "karpenter.sh",
]);

/**
 * Would the DaemonSet controller want a pod on this node, once what is temporary has passed (`NodeShouldRunDaemonPod` of
 * kubernetes/pkg/controller/daemon, v1.36)? It asks the template: node name, node selector, required node affinity, and
 * taints with the effects `NoSchedule` and `NoExecute`. The tolerations that it adds itself are for taints of
 * `node.kubernetes.io/`, which do not count here. A label that comes later makes a DaemonSet expected only then.
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
  const lasting = untolerated.find((taint) => !isOfGate(taint) && !TEMPORARY.has(domainOf(taint.key)));
  if (lasting !== undefined) {
    return { state: "notExpected", why: `it does not tolerate the taint ${taintText(lasting)}` };
  }
  const taint = untolerated.find(isOfGate);
  return taint === undefined ? { state: "expected" } : { state: "blocked", taint };
}

/** Which of what it asks of nodes, taints apart, keeps it from this one; `undefined` when nothing does. */
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
