/**
 * Finds another node for a pod, by the criteria of kube-scheduler 1.36 with its default plugins (their `Filter`). Three
 * things count differently: preemption never makes room, a resize in progress counts as the spec says, and a node that
 * an autoscaler removes, or may remove, takes none.
 */
import type { Node, Pod } from "@berth/kube";
import { whyNoTarget } from "../api/autoscaler.ts";
import { type NodeCheck, placementCheck } from "../node/placement-check.ts";
import { resourceCheck } from "./fit-resources.ts";
import { placementSize } from "./fit-size.ts";
import { readsNeighbours, type Steps, topologyCheck } from "./fit-topology.ts";

/** What the pods of a cluster stand on. Objects are as on the wire; of pods, the fields of `slimPod` suffice. */
export interface Ground {
  /** All nodes of the cluster. A lookup reads them more than once. */
  readonly nodes: Iterable<Node>;
  /** Pods bound to this node that have not ended; those being deleted count. */
  podsOn(node: string): readonly Pod[];
  /** Labels of a namespace; undefined when unknown. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | undefined;
  /** Of all these pods, those that may keep one of this namespace out (`forbiddenNamespace`). Absent: any of them may. */
  forbidding?(namespace: string): Iterable<Pod>;
}

/** A pod that Berth assumes on another node: it was evicted, and its replacement is not bound yet. */
export interface PlacedPod {
  readonly pod: Pod;
  readonly node: string;
}

/** `message` is a sentence for people, without the name of the pod and a full stop. */
export type FitResult =
  | { readonly node: string }
  | { readonly reason: "NoOtherNode" | "FitUnknown"; readonly message: string };

/** A lookup ends after about so many comparisons of texts. With the pods of 5,000 nodes and usual affinity it takes fewer. */
export const MAX_COMPARISONS = 20_000_000;
const DEFAULT_SCHEDULER = "default-scheduler";
/** Reasons in a message. The rest is counted together. */
const MOST_REASONS = 4;

/**
 * Finds a node, other than its own, that takes a copy of the pod: same owner, labels and spec. The pod itself counts as
 * gone. Returns the first such node.
 *
 * @param how `True`: all criteria of the scheduler. `PendingOk`: only those that do not depend on other pods (cordon,
 *   taints, node selector, required node affinity); the result is never `FitUnknown`.
 * @param placed their pods count as on `node`, and as gone from their own nodes.
 */
export function findFit(
  pod: Pod,
  how: "True" | "PendingOk",
  ground: Ground,
  placed: readonly PlacedPod[] = [],
): FitResult {
  return goOn(fitSteps(pod, how, ground, placed), MAX_COMPARISONS).found ?? tooMuch;
}

/** The result of a lookup that has taken `MAX_COMPARISONS`. */
export const tooMuch: FitResult = {
  reason: "FitUnknown",
  message: `affinity of it or of other pods takes more than ${MAX_COMPARISONS} comparisons`,
};

/** Goes on with a lookup until its end, or for about so many comparisons. */
export function goOn(
  lookup: Steps<FitResult>,
  comparisons: number,
): { readonly found?: FitResult; readonly left: number } {
  for (let left = comparisons; ; ) {
    const step = lookup.next();
    if (step.done) return { found: step.value, left };
    left -= step.value;
    if (left <= 0) return { left };
  }
}

/** The lookup of `findFit`, which may pause. What changes meanwhile may count or not. */
export function* fitSteps(
  pod: Pod,
  how: "True" | "PendingOk",
  ground: Ground,
  placed: readonly PlacedPod[],
): Steps<FitResult> {
  const unknown = how === "True" ? whyUnknown(pod, ground) : undefined;
  if (unknown !== undefined) return { reason: "FitUnknown", message: unknown };
  const [mayBeOn, size] = [placementCheck(pod), placementSize(pod)];
  const takesNow = presentCheck(pod, ground, placed);
  const refusals = new Map<string, number>();
  for (const node of ground.nodes) {
    yield size;
    const name = node.metadata?.name ?? "";
    if (name === pod.spec?.nodeName) continue;
    const refusal =
      mayBeOn(node) ?? whyNoTarget(node) ?? (how === "True" ? yield* takesNow(node) : undefined);
    if (refusal === undefined) return { node: name };
    refusals.set(refusal, (refusals.get(refusal) ?? 0) + 1);
  }
  return { reason: "NoOtherNode", message: refusalText(refusals) };
}

function whyUnknown({ metadata, spec }: Pod, ground: Ground): string | undefined {
  const { schedulerName = DEFAULT_SCHEDULER, resourceClaims = [], volumes = [] } = spec ?? {};
  const namespace = metadata?.namespace ?? "";
  if (schedulerName !== DEFAULT_SCHEDULER)
    return `its scheduler is ${schedulerName}, whose criteria Berth does not know`;
  if (resourceClaims.length > 0) return "it has resource claims, and devices can bind a pod to nodes";
  if (volumes.some((it) => it.persistentVolumeClaim !== undefined || it.ephemeral !== undefined))
    return "it has a persistent volume, and volumes can bind a pod to nodes";
  return ground.namespaceLabels(namespace) === undefined
    ? `Berth does not know the labels of its namespace ${namespace}`
    : undefined;
}

/** The criteria that depend on other pods. Pods of all nodes are read only when a node has room. */
function presentCheck(
  pod: Pod,
  ground: Ground,
  placed: readonly PlacedPod[],
): (node: Node) => Steps<ReturnType<NodeCheck>> {
  const left = [pod, ...placed.map((it) => it.pod)];
  const podsOn = podsAfter(left, placed, ground);
  const hasRoom = resourceCheck(pod);
  let topology: NodeCheck | undefined;
  return function* (node) {
    const pods = podsOn(node.metadata?.name ?? "");
    const refusal = yield* hasRoom(node, pods);
    if (refusal !== undefined) return refusal;
    topology ??= yield* topologyCheck(pod, {
      nodes: ground.nodes,
      podsOn: readsNeighbours(pod) ? podsOn : () => [],
      forbiddingOn: podsAfter(left, placed, yield* forbiddingPods(pod, ground)),
      namespaceLabels: (of) => ground.namespaceLabels(of),
    });
    return topology(node);
  };
}

function* forbiddingPods({ metadata }: Pod, ground: Ground): Steps<Pick<Ground, "podsOn">> {
  if (ground.forbidding === undefined) return ground;
  const byNode = new Map<string, Pod[]>();
  for (const pod of ground.forbidding(metadata?.namespace ?? "")) {
    yield 1;
    const { nodeName = "" } = pod.spec ?? {};
    const pods = byNode.get(nodeName);
    if (pods === undefined) byNode.set(nodeName, [pod]);
    else pods.push(pod);
  }
  return { podsOn: (node) => byNode.get(node) ?? [] };
}

/** The pods of each node after some left their nodes and others were placed. */
function podsAfter(
  left: readonly Pod[],
  placed: readonly PlacedPod[],
  ground: Pick<Ground, "podsOn">,
): Ground["podsOn"] {
  const gone = new Set(left.map(({ metadata }) => metadata?.uid));
  const changed = new Set([...left.map(({ spec }) => spec?.nodeName), ...placed.map(({ node }) => node)]);
  return (name) => {
    const there = ground.podsOn(name);
    if (!changed.has(name)) return there;
    return [
      ...there.filter(({ metadata }) => !gone.has(metadata?.uid)),
      ...placed.filter(({ node }) => node === name).map(({ pod }) => copyOf(pod)),
    ];
  };
}

/** The replacement of an evicted pod is not being deleted. */
function copyOf(pod: Pod): Pod {
  const { deletionTimestamp: _, ...metadata } = pod.metadata ?? {};
  return { ...pod, metadata };
}

/** `none of 3 other nodes takes it: 2 have too little free cpu, 1 is cordoned` */
function refusalText(refusals: ReadonlyMap<string, number>): string {
  const sorted = [...refusals].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  const sum = (counts: typeof sorted): number => counts.reduce((all, [, count]) => all + count, 0);
  const nodes = sum(sorted);
  if (nodes === 0) return "there is no other node";
  const reasons = sorted
    .slice(0, MOST_REASONS)
    .map(([reason, n]) => `${n} ${n === 1 ? reason : plural(reason)}`);
  const rest = sum(sorted.slice(MOST_REASONS));
  const all = rest === 0 ? reasons : [...reasons, `${rest} for other reasons`];
  const subject =
    nodes === 1 ? "the only other node does not take it" : `none of ${nodes} other nodes takes it`;
  return `${subject}: ${all.join(", ")}`;
}

const PLURALS: Readonly<Record<string, string>> = { is: "are", has: "have", does: "do" };

/** Refusals begin with a verb in the singular. */
function plural(refusal: string): string {
  return refusal.replace(/^\S+/, (verb) => PLURALS[verb] ?? verb.replace(/s$/, ""));
}
