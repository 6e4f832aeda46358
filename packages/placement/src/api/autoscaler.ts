/** How an autoscaler says that a node goes, and a user that a pod must not. Values are read as the autoscalers read them. */
import type { Node, ObjectMeta } from "@berth/kube";
import { ownValue } from "../node/mark.ts";

/** Of Karpenter (`pkg/apis/v1`) and cluster-autoscaler (`utils/taints`): the node is being drained, and then deleted. */
const GOING: ReadonlySet<string> = new Set(["karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"]);
/** Of cluster-autoscaler: the node has been idle, and goes unless pods come. */
const CANDIDATE = "DeletionCandidateOfClusterAutoscaler";
/** `true`, or as long as the pod is younger than this duration of Go. */
export const DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt";
/** `false`: the pod stays. Other values say nothing here. */
export const SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict";

export function isTaintOfGoingNode(key: string): boolean {
  return GOING.has(key);
}

/** Why the node is about to go, beginning with a verb (`is being deleted`). `undefined`: it stays. */
export function whyGoing({ metadata, spec }: Node): string | undefined {
  if (metadata?.deletionTimestamp !== undefined) return "is being deleted";
  const taint = spec?.taints?.find(({ key }) => isTaintOfGoingNode(key));
  return taint && `is being removed by an autoscaler (taint ${taint.key})`;
}

/** As `whyGoing`, also for a node that goes soon unless pods come, such as those that Berth evicts elsewhere. */
export function whyNoTarget(node: Node): string | undefined {
  const isCandidate = node.spec?.taints?.some(({ key }) => key === CANDIDATE) === true;
  return whyGoing(node) ?? (isCandidate ? `may be removed by an autoscaler (taint ${CANDIDATE})` : undefined);
}

/** Of a duration, so that a hostile one costs nothing. */
const MAX_DURATION = 64;
const GO_DURATION = /^\+?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/;
const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/** Until which age Karpenter leaves the pod, ms: `Infinity` for `true`, and 0 for a value that it cannot read. */
export function undisruptedMs({ annotations }: ObjectMeta): number {
  const value = ownValue(annotations, DO_NOT_DISRUPT) ?? "";
  if (value === "true") return Number.POSITIVE_INFINITY;
  if (value.length > MAX_DURATION || !GO_DURATION.test(value)) return 0;
  return [...value.matchAll(/([\d.]+)([a-zµ]+)/g)].reduce(
    (sum, [, amount, unit = ""]) => sum + Number(amount) * (UNIT_MS[unit] ?? 0),
    0,
  );
}
