/** Where pods are relative to each other, as the scheduler's plugins InterPodAffinity and PodTopologySpread count it. */
import type { Node, Pod, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint } from "@berth/kube";
import { ownValue } from "../node/mark.ts";
import { labelCheck, type NodeCheck, taintCheck } from "../node/placement-check.ts";
import { isEmptySelector, matchesSelector } from "../node/selector.ts";
import { MAX_ENTRIES, placementSize, sizeOf } from "./fit-size.ts";

/** The part of the cluster that these criteria read. See `Ground`. */
interface Neighbourhood {
  readonly nodes: Iterable<Node>;
  podsOn(node: string): readonly Pod[];
  /** Of these pods, at least those that may keep the pod out. */
  forbiddingOn(node: string): readonly Pod[];
  namespaceLabels(name: string): Readonly<Record<string, string>> | undefined;
}

/**
 * Work that may pause wherever it yields. It yields how many texts it compares next, about: users decide how much a lookup
 * has to read.
 */
export type Steps<T> = Generator<number, T, undefined>;

/** Checks one kind of rule. `count` sees each node before `refuse` is asked about any. */
interface Rule {
  count(node: Node, pods: readonly Pod[], forbidding: readonly Pod[]): Steps<void>;
  readonly refuse: NodeCheck;
}

/** In `forbiddenNamespace`: pods of any namespace. */
export const EVERYWHERE = "*";

/** In which namespace the pod keeps others out of its domain, by required anti-affinity. `undefined`: in none. */
export function forbiddenNamespace({ metadata, spec }: Pod): string | undefined {
  const terms = required(spec?.affinity?.podAntiAffinity);
  if (terms.some(reachesOut)) return EVERYWHERE;
  return terms.length === 0 ? undefined : metadata?.namespace;
}

/** Few terms that keep out all pods that these could be about. */
export function wideAntiAffinity(antiAffinity: PodAntiAffinity | undefined): PodAntiAffinity {
  const terms = required(antiAffinity);
  const anywhere = terms.some(reachesOut) && { namespaceSelector: {} };
  const keys = new Set(terms.map(({ topologyKey }) => topologyKey).slice(0, MAX_ENTRIES));
  return { [REQUIRED]: Array.from(keys, (topologyKey) => ({ topologyKey, labelSelector: {}, ...anywhere })) };
}

function reachesOut({ namespaces = [], namespaceSelector }: PodAffinityTerm): boolean {
  return namespaces.length > 0 || namespaceSelector !== undefined;
}

/** False when only pods that forbid neighbours decide about this pod. */
export function readsNeighbours(pod: Pod): boolean {
  const { affinity, topologySpreadConstraints = [] } = pod.spec ?? {};
  return (
    required(affinity?.podAntiAffinity).length > 0 ||
    required(affinity?.podAffinity).length > 0 ||
    topologySpreadConstraints.length > 0
  );
}

/** Reads the pods of all nodes once, then answers about each node. */
export function* topologyCheck(pod: Pod, around: Neighbourhood): Steps<NodeCheck> {
  const spreads = (pod.spec?.topologySpreadConstraints ?? []).filter(
    ({ whenUnsatisfiable }) => whenUnsatisfiable === "DoNotSchedule",
  );
  const rules = [
    affinityRule(pod, around),
    antiAffinityRule(pod, around),
    ...spreads.map((spread) => spreadRule(pod, spread, spreads)),
  ];
  for (const node of around.nodes) {
    const name = node.metadata?.name ?? "";
    const [pods, forbidding] = [around.podsOn(name), around.forbiddingOn(name)];
    yield rules.length;
    for (const rule of rules) yield* rule.count(node, pods, forbidding);
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
function affinityRule(pod: Pod, around: Neighbourhood): Rule {
  const terms = required(pod.spec?.affinity?.podAffinity);
  const near = terms.map(() => new Set<string>());
  const isFor = (other: Pod): boolean => terms.every((term) => selects(term, pod, other, around));
  const size = sizeOf(terms);
  return {
    *count({ metadata }, pods) {
      if (terms.length === 0) return;
      for (const other of pods) {
        yield size;
        if (!isFor(other)) continue;
        terms.forEach(({ topologyKey }, i) => {
          const domain = ownValue(metadata?.labels, topologyKey);
          if (domain !== undefined) near[i]?.add(domain);
        });
        return;
      }
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
function antiAffinityRule(pod: Pod, around: Neighbourhood): Rule {
  const terms = required(pod.spec?.affinity?.podAntiAffinity);
  const avoided = new Map<string, Set<string>>();
  const avoid = ({ topologyKey }: PodAffinityTerm, { metadata }: Node): void => {
    const domain = ownValue(metadata?.labels, topologyKey);
    if (domain === undefined) return;
    const domains = avoided.get(topologyKey) ?? new Set();
    avoided.set(topologyKey, domains.add(domain));
  };
  const size = sizeOf(terms);
  return {
    *count(node, pods, forbidding) {
      for (const other of terms.length === 0 ? [] : pods) {
        yield size;
        for (const term of terms) if (selects(term, pod, other, around)) avoid(term, node);
      }
      for (const other of forbidding)
        for (const term of required(other.spec?.affinity?.podAntiAffinity)) {
          yield termSize(term);
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
  const [size, checkSize] = [sizeOf(selector), checks.length * placementSize(pod)];
  let least: number | undefined;
  return {
    *count(node, pods) {
      yield all.length + checkSize;
      const ofNode = node.metadata?.labels;
      if (all.some((it) => ownValue(ofNode, it.topologyKey) === undefined)) return;
      if (checks.some((check) => check(node) !== undefined)) return;
      const domain = ownValue(ofNode, topologyKey) ?? "";
      let count = counts.get(domain) ?? 0;
      for (const other of countsNone ? [] : pods) {
        const isNear =
          other.metadata?.namespace === namespace && other.metadata?.deletionTimestamp === undefined;
        yield isNear ? size : 1;
        if (isNear && isCounted(other)) count += 1;
      }
      counts.set(domain, count);
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

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
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
  around: Neighbourhood,
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

/** As `sizeOf`, for each term of each pod: labels do not count, because the first that differs is the last compared. */
function termSize({ namespaces = [], namespaceSelector, labelSelector }: PodAffinityTerm): number {
  let size = namespaces.length + 2;
  for (const { values = [] } of namespaceSelector?.matchExpressions ?? []) size += values.length + 1;
  for (const { values = [] } of labelSelector?.matchExpressions ?? []) size += values.length + 1;
  return size;
}
