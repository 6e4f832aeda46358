/** Which pods architecture placement changes and holds. Total on whatever somebody sent. */
import { isDaemonSetPod } from "../node/pod-kind.ts";
import { isNarrowable } from "./govern.ts";
import { type ArchitecturePolicyInForce, narrows } from "./policy.ts";

/** May pods like this be narrowed, held and refused, where their policy wants it? Others would only be made again. */
export function isOrdinary(pod: { readonly namespace: string; readonly metadata: unknown }): boolean {
  return isNarrowable(pod.namespace) && !isDaemonSetPod(pod.metadata);
}

/** Is the pod narrowed, and held until it can be? */
export function isHeldFor(
  policy: ArchitecturePolicyInForce | undefined,
  pod: { readonly namespace: string; readonly metadata: unknown },
): policy is ArchitecturePolicyInForce {
  return policy !== undefined && narrows(policy) && isOrdinary(pod);
}
