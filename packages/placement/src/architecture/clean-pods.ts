/** Decides which pods `berth clean --restart-pods` restarts, so that they lose our tolerations. Pure. */
import { type Pod, pathOf, type Toleration } from "@berth/kube";
import { isMirrorPod } from "../node/pod-kind.ts";

export interface PodRestarts {
  /** Pods to evict: the API server enforces disruption budgets on evictions. Sorted by namespace and name. */
  readonly evict: readonly Pod[];
  /** Pods that keep a toleration of ours, and why. Without the taint the toleration has no effect. */
  readonly left: readonly { readonly pod: Pod; readonly why: string }[];
}

/**
 * Considers pods with a toleration for one of the keys, in the form that Berth writes, and ignores others. Evicts those
 * that a controller creates again. Pods of DaemonSets stay, because their template has the toleration.
 */
export function planPodRestarts(pods: Iterable<Pod>, keys: readonly string[]): PodRestarts {
  const declared = new Set(keys);
  const evict: Pod[] = [];
  const left: PodRestarts["left"][number][] = [];
  for (const pod of pods) {
    if (!pod.spec?.tolerations?.some((it) => isOurs(it, declared))) continue;
    const why = whyLeft(pod);
    if (why === undefined) evict.push(pod);
    else left.push({ pod, why });
  }
  return { evict: evict.sort(byName), left: left.sort((a, b) => byName(a.pod, b.pod)) };
}

/** The form that Berth and archaware-controller write: `NoSchedule`, with a value and no operator, or `Exists`. */
function isOurs(
  { key = "", operator, value = "", effect, tolerationSeconds }: Toleration,
  keys: ReadonlySet<string>,
): boolean {
  const isForm = operator === undefined ? value !== "" : operator === "Exists";
  return keys.has(key) && effect === "NoSchedule" && isForm && tolerationSeconds === undefined;
}

function whyLeft({ metadata, status }: Pod): string | undefined {
  const owner = metadata?.ownerReferences?.find(({ controller }) => controller === true);
  if (isMirrorPod(metadata) || owner?.kind === "Node") {
    return "it is a static pod of its node, which the API cannot restart";
  }
  if (status?.phase === "Succeeded" || status?.phase === "Failed") return "it has ended";
  if (metadata?.deletionTimestamp !== undefined) return "it is being deleted already";
  if (owner?.kind === "DaemonSet") return "its DaemonSet has the toleration in its pod template";
  return owner === undefined ? "no controller would create it again" : undefined;
}

function byName(a: Pod, b: Pod): number {
  return pathOf(a.metadata) < pathOf(b.metadata) ? -1 : 1;
}
