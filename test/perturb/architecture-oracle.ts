/**
 * What architecture policies want of nodes, pods and DaemonSets, worked out a second time from what the API server had,
 * without a line of the product's own code.
 */
import type {
  Affinity,
  DaemonSet,
  KubeObject,
  Node,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  Pod,
  PodSpec,
  Toleration,
} from "@berth/kube";
import { daemonSets, nodes, pods } from "@berth/kube";
import {
  ARCHITECTURE_CONDITION,
  ARCHITECTURE_GATE,
  type ArchitecturePolicy,
  architecturePolicies,
} from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import { ofKind } from "./worlds.ts";

/** What the API server had at one moment, the sentinel apart. */
export interface ArchitectureView {
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  readonly daemonSets: readonly DaemonSet[];
  readonly policies: readonly ArchitecturePolicy[];
}

export type Verdict =
  | { readonly kind: "any" | "waiting" | "impossible" }
  | { readonly kind: "fits"; readonly architectures: readonly string[] };

interface Spec {
  readonly mode: "Taint" | "Affinity" | "Both";
  readonly priority: number;
  readonly taint: { readonly key: string; readonly nodes: "Taint" | "Leave" };
  readonly images: readonly { readonly image: string; readonly architectures: readonly string[] }[];
}

/** A pod, or the template of a DaemonSet. */
export interface Workload {
  readonly name: string;
  readonly tolerations: readonly Toleration[];
  readonly spec: PodSpec;
}

export function toArchitectureView(entries: readonly HistoryEntry[]): ArchitectureView {
  return {
    nodes: ofKind(entries, nodes),
    pods: ofKind(entries, pods),
    daemonSets: ofKind(entries, daemonSets),
    policies: ofKind(entries, architecturePolicies),
  };
}

/** It governs all pods: the highest, then the first by name. */
export function governing({ policies }: ArchitectureView): Spec | undefined {
  const rank = ({ metadata, spec }: ArchitecturePolicy): string =>
    `${String(2000 - (spec as Spec).priority).padStart(5, "0")}${metadata?.name}`;
  return policies.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1)).at(0)?.spec as Spec | undefined;
}

/** Keys that nodes are tainted with, or will be. */
export function keysOf({ policies }: ArchitectureView): readonly string[] {
  const specs = policies.map(({ spec }) => spec as Spec);
  return [...new Set(specs.filter(({ mode }) => mode !== "Affinity").map(({ taint }) => taint.key))];
}

export function verdictOf({ containers }: PodSpec, policy: Spec | undefined): Verdict {
  if (policy === undefined) return { kind: "any" };
  const facts = containers.map(
    ({ image }) => policy.images.find((one) => one.image === image)?.architectures,
  );
  const known = facts.filter((fact) => fact !== undefined).map((fact) => new Set(fact));
  const [first = new Set<string>(), ...others] = known;
  const common = others.reduce((all, one) => all.intersection(one), first);
  if (known.length > 0 && common.size === 0) return { kind: "impossible" };
  if (known.length < facts.length) return { kind: "waiting" };
  return { kind: "fits", architectures: [...common].toSorted() };
}

/** Would a taint with this key surprise it? Not where it can run nowhere. While nobody knows, whatever its value. */
export function lacking(tolerations: readonly Toleration[], key: string, verdict: Verdict): boolean {
  const ours = tolerations.filter((one) => one.key === key);
  const isForAll = ours.some(({ operator }) => operator === "Exists");
  if (verdict.kind === "impossible" || isForAll) return false;
  if (verdict.kind !== "fits") return true;
  return verdict.architectures.some((value) => !ours.some((one) => one.value === value));
}

export function workloadsOf(view: ArchitectureView): readonly Workload[] {
  const of = (prefix: string, object: KubeObject, spec: PodSpec): Workload => ({
    name: `${prefix} ${object.metadata?.name}`,
    tolerations: spec.tolerations ?? [],
    spec,
  });
  const none: PodSpec = { containers: [] };
  return [
    ...view.pods.filter(isUnscheduled).map((pod) => of("Pod", pod, pod.spec ?? none)),
    ...view.daemonSets.map((set) => of("DaemonSet", set, set.spec?.template.spec ?? none)),
  ];
}

export function isUnscheduled({ spec, metadata }: Pod): boolean {
  return spec?.nodeName === undefined && metadata?.deletionTimestamp === undefined;
}

/** Names of what a taint with this key would surprise. */
export function uncovered(view: ArchitectureView, key: string): ReadonlySet<string> {
  const policy = governing(view);
  const open = workloadsOf(view).filter(({ spec, tolerations }) =>
    lacking(tolerations, key, verdictOf(spec, policy)),
  );
  return new Set(open.map(({ name }) => name));
}

export function taintsAt(node: Node | undefined, key: string): readonly string[] {
  const { taints = [] } = node?.spec ?? {};
  return taints.filter((one) => one.key === key).map(({ value, effect }) => `${value}:${effect}`);
}

export function wantedTaint(node: Node): string {
  return `${node.status?.nodeInfo?.architecture}:NoSchedule`;
}

export function isGated({ spec }: Pod): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === ARCHITECTURE_GATE) === true;
}

/** The reason why it can run nowhere, as Berth says on the pod. */
export function conditionOf({ status }: Pod): string | undefined {
  return status?.conditions?.find(({ type }) => type === ARCHITECTURE_CONDITION)?.reason;
}

/** The affinity that allows what it did, on these architectures only. */
export function narrowed(affinity: Affinity | undefined, architectures: readonly string[]): Affinity {
  const added: readonly NodeSelectorRequirement[] = [
    { key: "kubernetes.io/arch", operator: "In", values: architectures },
    { key: "kubernetes.io/os", operator: "In", values: ["linux"] },
  ];
  const { nodeAffinity } = affinity ?? {};
  const required = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = required?.nodeSelectorTerms.map((term) => narrowedTerm(term, added));
  const nodeSelectorTerms = terms ?? [{ matchExpressions: added }];
  return {
    ...affinity,
    nodeAffinity: {
      ...nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms },
    },
  };
}

/** One that says nothing selects nothing, and stays so. */
function narrowedTerm(term: NodeSelectorTerm, added: readonly NodeSelectorRequirement[]): NodeSelectorTerm {
  if (Object.keys(term).length === 0) return term;
  return { ...term, matchExpressions: [...(term.matchExpressions ?? []), ...added] };
}

/** Where the cluster is not yet as the policies want it by what is there now: one sentence each. */
export function unsettled(view: ArchitectureView): readonly string[] {
  const policy = governing(view);
  const keys = keysOf(view);
  const lag = workloadsOf(view).flatMap(({ name, spec, tolerations }) => {
    const verdict = verdictOf(spec, policy);
    const open = keys.filter((key) => verdict.kind !== "waiting" && lacking(tolerations, key, verdict));
    return open.map((key) => `${name} lacks ${key}`);
  });
  const held = view.pods.filter((pod) => {
    const { kind } = verdictOf(pod.spec ?? { containers: [] }, policy);
    return isGated(pod) && kind !== "waiting" && kind !== "impossible";
  });
  // The key of the sentinel is in force all the time, so Berth keeps each of them pending.
  const unsaid = view.pods.filter((pod) => {
    const isStuck = verdictOf(pod.spec ?? { containers: [] }, policy).kind === "impossible";
    return isUnscheduled(pod) && isStuck !== (conditionOf(pod) !== undefined);
  });
  return [
    ...lag,
    ...unsaid.map(({ metadata }) => `${metadata?.name} has the wrong condition`),
    ...held.map(({ metadata }) => `${metadata?.name} is held`),
    ...view.policies.flatMap((one) => unsettledPolicy(one, view)),
  ];
}

function unsettledPolicy({ metadata, spec, status }: ArchitecturePolicy, view: ArchitectureView): string[] {
  const { mode, taint } = spec as Spec;
  const { phase, taintedNodes = 0, observedGeneration, waitingPods = 0, impossiblePods = 0 } = status ?? {};
  const counted = (kind: Verdict["kind"]): number =>
    view.pods.filter(
      (pod) => isUnscheduled(pod) && verdictOf(pod.spec ?? { containers: [] }, governing(view)).kind === kind,
    ).length;
  const open = uncovered(view, taint.key).size;
  const right = view.nodes.filter((node) => taintsAt(node, taint.key).join() === wantedTaint(node)).length;
  const isTainting = mode !== "Affinity" && (open === 0 || right > 0);
  const say = (what: string, isWrong: boolean): string[] => (isWrong ? [`${metadata?.name}: ${what}`] : []);
  return [
    ...say("is not observed", observedGeneration !== metadata?.generation),
    ...say("miscounts nodes", mode !== "Affinity" && isTainting && taintedNodes !== right),
    ...say("miscounts uncovered", mode !== "Affinity" && (status?.uncovered ?? 0) !== open),
    ...say("miscounts waiting pods", waitingPods !== counted("waiting")),
    ...say("miscounts impossible pods", impossiblePods !== counted("impossible")),
    ...say("leaves nodes", isTainting && right < view.nodes.length),
    ...say("is in another phase", (phase === "Tainting") !== isTainting),
  ];
}
