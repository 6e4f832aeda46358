/** Decides about a stored pod while Berth does not know its namespace labels, and so not its policy. Pure. */
import { reasons } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import { FIRST_LOOK_MS, type PodDecision, type PodView, podName } from "./decide-pod.ts";
import { mayBeHeldFor } from "./govern.ts";
import { gateIndex, guards, liftGate } from "./pod-patch.ts";
import type { ArchitecturePolicyInForce } from "./policy.ts";

interface UnknownNamespaceView extends Pick<PodView, "pod" | "keys" | "now"> {
  readonly policies: readonly ArchitecturePolicyInForce[];
  /** Since when this process has seen the pod in this state. */
  readonly seenSince: Instant;
}

/** Berth checks again after this, ms. By then it knows a new namespace. */
const SOON_MS = 1000;

/**
 * If Berth may not read namespaces, it must not hold pods forever. It lifts the gate after the longest `maxHold` of all
 * policies that could narrow the pod, unless one of them says `Keep`. It adds no tolerations, because it cannot remove
 * them later.
 */
export function decideUnknownNamespace(view: UnknownNamespaceView): PodDecision {
  const { pod, keys, now } = view;
  const { namespace = "", resourceVersion } = pod.metadata ?? {};
  const message = `its policy is not known, because the labels of the namespace ${namespace} could not be read in time`;
  const verdict = { kind: "waiting", reason: reasons.HoldExpired, message, images: [] } as const;
  const lift = now >= heldUntil(view) ? liftGate(pod.spec) : [];
  const isLifted = lift.length > 0 && resourceVersion !== undefined;
  const subject = podName(pod);
  return {
    verdict,
    isLifted,
    ...(isLifted && {
      patch: [...guards(resourceVersion, pod.spec), ...lift],
      finding: {
        reason: verdict.reason,
        severity: "warning",
        subject,
        message: `${message}; Berth releases it`,
      },
    }),
    wants: [],
    outcome: { rule: undefined, uncovered: keys, phase: "waiting" },
    recheckAfterMs: SOON_MS,
  };
}

function heldUntil({ pod, policies, seenSince }: UnknownNamespaceView): Instant {
  const { metadata = {}, spec } = pod;
  const { namespace = "", labels, creationTimestamp = "" } = metadata;
  if (gateIndex(spec) < 0) return Number.POSITIVE_INFINITY;
  const able = policies.filter((policy) => mayBeHeldFor(policy, { namespace, metadata }, labels));
  if (able.some(({ spec: { afterMaxHold } }) => afterMaxHold === "Keep")) return Number.POSITIVE_INFINITY;
  const maxHoldMs = Math.max(FIRST_LOOK_MS, ...able.map((policy) => policy.maxHoldMs));
  const createdAt = Date.parse(creationTimestamp);
  const since = Number.isNaN(createdAt) ? seenSince : Math.min(createdAt, seenSince);
  return Math.max(since + maxHoldMs, seenSince + FIRST_LOOK_MS);
}
