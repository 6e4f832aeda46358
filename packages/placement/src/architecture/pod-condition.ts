/** The condition of a pod that Berth keeps pending because it can run nowhere. Pure. */
import type { Pod, PodCondition } from "@berth/kube";
import type { Instant } from "../node/capability.ts";
import { ARCHITECTURE_CONDITION } from "./document.ts";
import type { PodVerdict } from "./pod-view.ts";

/** A strategic merge patch of the status, bound to the UID of the pod. */
export interface PodStatusPatch {
  readonly metadata: { readonly uid: string };
  readonly status: { readonly conditions: readonly [object] };
}

export function standingCondition({ status }: Pod): PodCondition | undefined {
  return status?.conditions?.find(({ type }) => type === ARCHITECTURE_CONDITION);
}

/** @param why absent: remove the condition. @returns `undefined` if there is nothing to change. */
export function conditionPatch(
  pod: Pod,
  why: Pick<PodVerdict, "reason" | "message"> | undefined,
  now: Instant,
): PodStatusPatch | undefined {
  const standing = standingCondition(pod);
  const { uid } = pod.metadata ?? {};
  const type = ARCHITECTURE_CONDITION;
  if (uid === undefined || (why === undefined && standing === undefined)) return undefined;
  if (why === undefined) return { metadata: { uid }, status: { conditions: [{ type, $patch: "delete" }] } };
  const { reason, message } = why;
  if (standing?.reason === reason && standing.message === message) return undefined;
  // With another reason the status is still `False`, so the time stays.
  const lastTransitionTime = standing?.lastTransitionTime ?? timeText(now);
  const condition = { type, status: "False", reason, message, lastTransitionTime };
  return { metadata: { uid }, status: { conditions: [condition] } };
}

/** `metav1.Time` has whole seconds. */
function timeText(now: Instant): string {
  return `${new Date(now).toISOString().slice(0, 19)}Z`;
}
