/** Which pods `berth clean --restart-pods` has made anew, so that they come back without a toleration of ours. Pure. */
import type { Pod, Toleration } from "@berth/kube";
import { pathOf } from "../node/once.ts";
import { isMirrorPod } from "../node/pod-kind.ts";

export interface PodRestarts {
  /** To be evicted, so that disruption budgets count. In order of namespace and name. */
  readonly evict: readonly Pod[];
  /** Pods with a toleration of ours that stay, and why; what it permits is nothing without the taint. */
  readonly left: readonly { readonly pod: Pod; readonly why: string }[];
}

/**
 * Of pods that carry a toleration as Berth gives it, with one of the keys, those that a controller makes anew. Others are
 * not mentioned. Pods of DaemonSets would come back with it, for Berth gives it to their templates.
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

/** As Berth and archaware-controller write it: with an effect, and with a value and no operator or for every value. */
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
  return owner === undefined ? "no controller would make it anew" : undefined;
}

function byName(a: Pod, b: Pod): number {
  return pathOf(a) < pathOf(b) ? -1 : 1;
}
