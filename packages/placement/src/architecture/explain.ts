/** Explains on which nodes a pod can run: which image excludes which architecture. Plain data, for `explain`. */
import { pick, REST_MS } from "@berth/host";
import type { Node, Pod, PodSpec, Toleration } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import type { Comparison } from "../node/explain/trace.ts";
import { firstOf } from "../node/first-names.ts";
import { ownValue } from "../node/mark.ts";
import { matchesNodeSelectorTerms } from "../node/selector.ts";
import { tolerates } from "../node/tolerations.ts";
import { taintKeys } from "./compile.ts";
import { decidePod, isUnscheduled } from "./decide-pod.ts";
import { type GovernContext, governing } from "./govern.ts";
import type { ImageObservations } from "./image-observations.ts";
import { gateIndex } from "./pod-patch.ts";
import type { ImageAllowance, PodVerdict } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { missingTolerations } from "./tolerations.ts";

export interface ImageExplanation {
  /** `container app`, `image volume model`. */
  readonly where: string;
  /** The full name. */
  readonly image: string;
  /** What it runs on. Absent if the image does not restrict the pod, or Berth does not know. */
  readonly architectures?: readonly string[];
  /** Architectures that nodes of the cluster have and this image does not run on. */
  readonly excludes: readonly string[];
  readonly source: ImageAllowance["source"];
  /** Why Berth has no facts about it. */
  readonly problem?: { readonly reason: Reason; readonly message: string };
}

/** Nodes of one architecture, from the point of view of the pod. */
export interface ArchitectureNodes {
  /** `linux/arm64`; `unknown` for nodes that do not say theirs. */
  readonly platform: string;
  readonly nodes: number;
  /** Nodes that architecture, selectors, affinity and taints allow for the pod. */
  readonly left: number;
  /** The first of them by name. */
  readonly first: readonly string[];
  /** Why the pod cannot run on the others. Each node counts once, for the first reason. */
  readonly because: readonly { readonly why: string; readonly nodes: number }[];
}

export interface PodExplanation {
  /** `default/web-1` */
  readonly pod: string;
  /** The node of the pod. Berth no longer changes a pod that has one. */
  readonly node?: string;
  /** Why its images do not run on that node. Absent if they do, or if Berth does not know. */
  readonly misplaced?: string;
  /** `cluster/default`. Absent: no policy governs the pod. */
  readonly policy?: string;
  readonly verdict: PodVerdict["kind"];
  readonly reason: Reason;
  readonly message: string;
  readonly architectures?: readonly string[];
  readonly images: readonly ImageExplanation[];
  /** Our scheduling gate holds it. */
  readonly held?: {
    /** RFC 3339. */
    readonly since: string;
    readonly forMs: number;
    /** After this time the policy decides without facts. Absent: no policy governs the pod. */
    readonly maxHoldMs?: number;
  };
  /** Scheduling gates of other controllers. Berth does not lift them. */
  readonly otherGates: readonly string[];
  /** Tolerations that it lacks for the taints of all policies. */
  readonly missingTolerations: readonly Toleration[];
  /** What Berth's next write does. */
  readonly next?: "change" | "release";
  /** Berth repeats a refused write after this time at the latest. */
  readonly retryMs?: number;
  readonly nodes: readonly ArchitectureNodes[];
}

interface ExplainPodInput extends Pick<GovernContext, "ownNamespace"> {
  readonly pod: Pod;
  readonly policies: ArchitecturePolicies | undefined;
  /** Of its namespace. */
  readonly namespaceLabels: Readonly<Record<string, string>> | undefined;
  readonly observations: ImageObservations;
  readonly nodes: Iterable<Node>;
  readonly now: Instant;
}

const MAX_FIRST = 5;

/** Pure and total. */
export function explainPod(input: ExplainPodInput): PodExplanation {
  const { pod, policies: known, namespaceLabels, observations, now, ownNamespace } = input;
  const { metadata = {}, spec = { containers: [] } } = pod;
  const { namespace = "", name = "", labels, creationTimestamp: since = "" } = metadata;
  const policies = known?.policies ?? [];
  const policy = governing({ policies, ownNamespace }, { namespace, namespaceLabels, labels });
  const keys = taintKeys({ policies });
  // Assume that a running Berth has seen the pod since its creation.
  const madeAt = Date.parse(since) || now;
  const decision = decidePod({ pod, policy, keys, observations, now, seenSince: madeAt });
  const { verdict } = decision;
  const { kind, reason, message, images } = verdict;
  const missing = missingTolerations(spec.tolerations, keys, verdict);
  const all = [...input.nodes];
  const tolerations = [...(spec.tolerations ?? []), ...missing];
  const nodes = summarize(all, { ...spec, tolerations }, verdict);
  const its = spec.nodeName ? all.find((node) => node.metadata?.name === spec.nodeName) : undefined;
  const misplaced = its && whyNotByImages(its, verdict);
  const present = nodes.map(({ platform }) => platform.slice(platform.indexOf("/") + 1));
  const isHeld = gateIndex(spec) >= 0;
  const isOpen = isUnscheduled(pod);
  return {
    pod: `${namespace}/${name}`,
    ...(spec.nodeName && { node: spec.nodeName }),
    ...(misplaced !== undefined && { misplaced }),
    ...(policy && { policy: policy.rule }),
    verdict: kind,
    reason,
    message,
    ...(kind === "fits" && { architectures: verdict.architectures }),
    images: images.map((image) => explainImage(image, present)),
    ...(isHeld && {
      held: { since, forMs: Math.max(0, now - madeAt), ...(policy && pick(policy, ["maxHoldMs"])) },
    }),
    otherGates: (spec.schedulingGates ?? [])
      .map((gate) => gate.name)
      .filter((_, at) => at !== gateIndex(spec)),
    missingTolerations: isOpen ? missing : [],
    ...(isOpen && decision.patch && { next: decision.isLifted ? "release" : "change", retryMs: REST_MS }),
    nodes,
  };
}

/** Do all images of the pod run on the node? */
export function compareImages({ images }: PodExplanation, { status }: Node): readonly Comparison[] {
  const { architecture = "" } = status?.nodeInfo ?? {};
  return images.map(({ image, architectures, problem }) => {
    const what = `image ${image} runs on ${architecture || "an architecture that the node does not report"}`;
    if (problem !== undefined) return { what, value: problem.message, holds: "unknown" };
    if (architectures === undefined) return { what, value: "any", holds: true };
    return { what, value: architectures.join(", "), holds: architectures.includes(architecture) };
  });
}

function explainImage(
  { use, knowledge, architectures, source }: ImageAllowance,
  present: readonly string[],
): ImageExplanation {
  const isExcluded = (it: string): boolean => it !== "unknown" && architectures?.includes(it) === false;
  return {
    where: use.where,
    image: knowledge.name,
    ...(architectures && { architectures }),
    excludes: [...new Set(present)].filter(isExcluded).toSorted(),
    source,
    // The registry's failure does not matter where the policy overrides the image.
    ...(source !== "policy" &&
      knowledge.state === "failed" && { problem: pick(knowledge, ["reason", "message"]) }),
  };
}

/** @param spec with the tolerations that Berth is about to add. */
function summarize(nodes: readonly Node[], spec: PodSpec, verdict: PodVerdict): readonly ArchitectureNodes[] {
  const found = new Map<string, { nodes: number; left: string[]; because: Map<string, number> }>();
  for (const node of nodes) {
    const { architecture = "", operatingSystem = "linux" } = node.status?.nodeInfo ?? {};
    const platform = architecture === "" ? "unknown" : `${operatingSystem}/${architecture}`;
    const entry = found.get(platform) ?? { nodes: 0, left: [], because: new Map<string, number>() };
    found.set(platform, entry);
    entry.nodes += 1;
    const why = whyNot(node, spec, verdict);
    if (why === undefined) entry.left.push(node.metadata?.name ?? "");
    else entry.because.set(why, (entry.because.get(why) ?? 0) + 1);
  }
  return [...found]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([platform, { nodes: count, left, because }]) => ({
      platform,
      nodes: count,
      left: left.length,
      first: firstOf(left, MAX_FIRST),
      because: [...because].map(([why, of]) => ({ why, nodes: of })).toSorted((a, b) => b.nodes - a.nodes),
    }));
}

/** The architectures of a node whose label says another one than its kubelet. */
export interface Contradiction {
  readonly nodeInfo: string;
  readonly label: string;
}

const NODE_LABEL = "kubernetes.io/arch";

export function contradictionOf({ metadata, status }: Node): Contradiction | undefined {
  const { architecture: nodeInfo } = status?.nodeInfo ?? {};
  const label = ownValue(metadata?.labels, NODE_LABEL);
  return nodeInfo && label !== undefined && label !== nodeInfo ? { nodeInfo, label } : undefined;
}

function whyNotByImages({ metadata, status }: Node, verdict: PodVerdict): string | undefined {
  const labels = metadata?.labels;
  const { architecture = ownValue(labels, NODE_LABEL) } = status?.nodeInfo ?? {};
  if (verdict.kind === "impossible") return "no architecture runs all images";
  if (verdict.kind !== "fits") return undefined;
  if (architecture !== undefined && !verdict.architectures.includes(architecture)) {
    return `its images do not run on ${architecture}`;
  }
  const os = ownValue(labels, "kubernetes.io/os");
  return os !== undefined && os !== verdict.os ? `its images do not run on ${os}` : undefined;
}

/** The first reason, in the order in which a user would check. */
function whyNot(node: Node, spec: PodSpec, verdict: PodVerdict): string | undefined {
  const byImages = whyNotByImages(node, verdict);
  if (byImages !== undefined) return byImages;
  const labels = node.metadata?.labels;
  const isSelected = Object.entries(spec.nodeSelector ?? {}).every(
    ([key, value]) => ownValue(labels, key) === value,
  );
  if (!isSelected) return "its node selector does not match";
  const required = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  if (required !== undefined && !matchesNodeSelectorTerms(required.nodeSelectorTerms, node)) {
    return "its node affinity does not match";
  }
  if (node.spec?.unschedulable === true) return "the node is cordoned";
  const taint = node.spec?.taints?.find(
    (it) => (it.effect === "NoSchedule" || it.effect === "NoExecute") && !tolerates(spec.tolerations, it),
  );
  return taint && `it does not tolerate ${taint.key}=${taint.value ?? ""}:${taint.effect}`;
}
