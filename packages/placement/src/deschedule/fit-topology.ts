/** Where pods are relative to each other, as the scheduler's plugins InterPodAffinity and PodTopologySpread count it. */
import type { Node, Pod, PodAffinityTerm, TopologySpreadConstraint } from "@berth/kube";
import { ownValue } from "../node/mark.ts";
import { isEmptySelector, matchesSelector } from "../node/selector.ts";
import { labelCheck, type NodeCheck, taintCheck } from "./fit-static.ts";

/** The part of the cluster that these criteria read. See `Ground`. */
interface CommandDeps {
  readonly nodes: Iterable<Node>;
  podsOn(node: string): readonly Pod[];
  namespaceLabels(name: string): Readonly<Record<string, string>> | undefined;
}

/** Checks one kind of rule. `count` sees each node before `refuse` is asked about any. */
interface Rule {
  count(node: Node, pods: readonly Pod[]): void;
  readonly refuse: NodeCheck;
}

/** True for a pod with required anti-affinity: it keeps other pods out of its domain. */
export function forbidsNeighbours({ spec }: Pod): boolean {
  return required(spec?.affinity?.podAntiAffinity).length > 0;
}

/** False when only pods that forbid neighbours decide about this pod. */
export function readsNeighbours(pod: Pod): boolean {
  const { affinity, topologySpreadConstraints = [] } = pod.spec ?? {};
  return (
    forbidsNeighbours(pod) ||
    required(affinity?.podAffinity).length > 0 ||
    topologySpreadConstraints.length > 0
  );
}

/** Reads the pods of all nodes once, then answers about each node. */
export function topologyCheck(pod: Pod, around: CommandDeps): NodeCheck {
  const spreads = (pod.spec?.topologySpreadConstraints ?? []).filter(
    ({ whenUnsatisfiable }) => whenUnsatisfiable === "DoNotSchedule",
  );
  const rules = [
    affinityRule(pod, around),
    antiAffinityRule(pod, around),
    ...spreads.map((spread) => spreadRule(pod, spread, spreads)),
  ];
  for (const node of around.nodes) {
    const pods = around.podsOn(node.metadata?.name ?? "");
    for (const rule of rules) rule.count(node, pods);
  }
  return (node) => {
    for (const rule of rules) {
      const refusal = rule.refuse(node);
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  };
}

/** Each term needs a pod in the domain of the node that matches all terms. The first pod of its own kind needs none. */
function affinityRule(pod: Pod, around: CommandDeps): Rule {
  const terms = required(pod.spec?.affinity?.podAffinity);
  const near = terms.map(() => new Set<string>());
  const isFor = (other: Pod): boolean => terms.every((term) => selects(term, pod, other, around));
  return {
    count({ metadata }, pods) {
      if (terms.length === 0 || !pods.some(isFor)) return;
      terms.forEach(({ topologyKey }, i) => {
        const domain = ownValue(metadata?.labels, topologyKey);
        if (domain !== undefined) near[i]?.add(domain);
      });
    },
    refuse({ metadata }) {
      const domains = terms.map(({ topologyKey }) => ownValue(metadata?.labels, topologyKey));
      const missing = domains.indexOf(undefined);
      if (missing >= 0) return `lacks label ${terms[missing]?.topologyKey}`;
      if (domains.every((domain, i) => near[i]?.has(domain ?? ""))) return undefined;
      const isFirst = near.every(({ size }) => size === 0) && isFor(pod);
      return isFirst ? undefined : "does not match pod affinity";
    },
  };
}

/** Neither the pod's terms nor those of the other pods allow two of them in one domain. */
function antiAffinityRule(pod: Pod, around: CommandDeps): Rule {
  const terms = required(pod.spec?.affinity?.podAntiAffinity);
  const avoided = new Map<string, Set<string>>();
  const avoid = ({ topologyKey }: PodAffinityTerm, { metadata }: Node): void => {
    const domain = ownValue(metadata?.labels, topologyKey);
    if (domain === undefined) return;
    const domains = avoided.get(topologyKey) ?? new Set();
    avoided.set(topologyKey, domains.add(domain));
  };
  return {
    count(node, pods) {
      for (const other of pods) {
        for (const term of terms) if (selects(term, pod, other, around)) avoid(term, node);
        for (const term of required(other.spec?.affinity?.podAntiAffinity))
          if (selects(term, other, pod, around)) avoid(term, node);
      }
    },
    refuse({ metadata }) {
      const isAvoided = [...avoided].some(([key, domains]) => {
        const domain = ownValue(metadata?.labels, key);
        return domain !== undefined && domains.has(domain);
      });
      return isAvoided ? "breaks pod anti-affinity" : undefined;
    },
  };
}

/** @param all spread constraints of the pod. Only nodes with the labels of all of them are in a domain. */
function spreadRule(
  pod: Pod,
  spread: TopologySpreadConstraint,
  all: readonly TopologySpreadConstraint[],
): Rule {
  const {
    topologyKey,
    maxSkew,
    minDomains = 1,
    nodeAffinityPolicy = "Honor",
    nodeTaintsPolicy = "Ignore",
  } = spread;
  const { namespace, labels } = pod.metadata ?? {};
  const ofSameRevision = (spread.matchLabelKeys ?? []).flatMap((key) => {
    const value = ownValue(labels, key);
    return value === undefined ? [] : [{ key, operator: "In", values: [value] }];
  });
  const selector = spread.labelSelector && {
    ...spread.labelSelector,
    matchExpressions: [...(spread.labelSelector.matchExpressions ?? []), ...ofSameRevision],
  };
  const isCounted = ({ metadata }: Pod): boolean =>
    selector !== undefined && matchesSelector(selector, metadata?.labels);
  // The scheduler counts no pod for an empty selector, although the pod itself matches.
  const countsNone = selector === undefined || isEmptySelector(selector);
  const checks = [
    ...(nodeAffinityPolicy === "Honor" ? [labelCheck(pod)] : []),
    ...(nodeTaintsPolicy === "Honor" ? [taintCheck(pod)] : []),
  ];
  const counts = new Map<string, number>();
  let least: number | undefined;
  return {
    count(node, pods) {
      const ofNode = node.metadata?.labels;
      if (all.some((it) => ownValue(ofNode, it.topologyKey) === undefined)) return;
      if (checks.some((check) => check(node) !== undefined)) return;
      const counted = countsNone
        ? []
        : pods.filter(
            (it) =>
              it.metadata?.namespace === namespace &&
              it.metadata?.deletionTimestamp === undefined &&
              isCounted(it),
          );
      const domain = ownValue(ofNode, topologyKey) ?? "";
      counts.set(domain, (counts.get(domain) ?? 0) + counted.length);
    },
    refuse({ metadata }) {
      const domain = ownValue(metadata?.labels, topologyKey);
      if (domain === undefined) return `lacks label ${topologyKey}`;
      least ??= counts.size < minDomains ? 0 : Math.min(...counts.values());
      const skew = (counts.get(domain) ?? 0) + (isCounted(pod) ? 1 : 0) - least;
      return skew > maxSkew ? `breaks the spread over ${topologyKey}` : undefined;
    },
  };
}

const NO_TERMS: readonly PodAffinityTerm[] = [];

function required(
  affinity:
    | { readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly PodAffinityTerm[] }
    | undefined,
): readonly PodAffinityTerm[] {
  return affinity?.requiredDuringSchedulingIgnoredDuringExecution ?? NO_TERMS;
}

/**
 * True when the term of one pod is about the other. The API server has put `matchLabelKeys` and `mismatchLabelKeys` into
 * the label selector. A namespace that Berth does not know has no labels, as for the scheduler.
 */
function selects(
  { namespaces = [], namespaceSelector, labelSelector }: PodAffinityTerm,
  { metadata: of }: Pod,
  { metadata: other }: Pod,
  around: CommandDeps,
): boolean {
  const namespace = other?.namespace ?? "";
  const isThere =
    namespaces.length === 0 && namespaceSelector === undefined
      ? namespace === of?.namespace
      : namespaces.includes(namespace) ||
        (namespaceSelector !== undefined &&
          matchesSelector(namespaceSelector, around.namespaceLabels(namespace)));
  return isThere && labelSelector !== undefined && matchesSelector(labelSelector, other?.labels);
}
