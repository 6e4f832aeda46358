/** Decides about a stored pod without a node: adds tolerations, narrows the affinity and lifts the gate. Pure. */
import { type JsonPatchOperation, type Pod, pathOf } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import type { Finding, Instant } from "../node/capability.ts";
import { tolerates } from "../node/tolerations.ts";
import { narrowedTo } from "./affinity.ts";
import { isHeldFor } from "./govern.ts";
import type { ImageObservations, ImageQuestion } from "./image-observations.ts";
import { conditionPatch, type PodStatusPatch, standingCondition } from "./pod-condition.ts";
import { gateIndex, guards, liftGate, narrow } from "./pod-patch.ts";
import type { PodVerdict, WorkloadOutcome } from "./pod-view.ts";
import type { ArchitecturePolicyInForce } from "./policy.ts";
import { appendTolerations, coverOf, POD_TOLERATIONS } from "./tolerations.ts";
import { isSettled, judge, recheckAfter, wantsOf } from "./verdict.ts";

/** The input for the decision about a pod. */
export interface PodView {
  readonly pod: Pod;
  /** The governing policy. `undefined`: no policy governs the pod. */
  readonly policy: ArchitecturePolicyInForce | undefined;
  /** Taint keys of all policies in force, from `taintKeys`. They count even if no policy governs the pod. */
  readonly keys: readonly string[];
  readonly observations: ImageObservations;
  readonly now: Instant;
  /** Since when this process has seen the pod under this policy. */
  readonly seenSince?: Instant | undefined;
  /** When its images last changed: a user may change them while the pod is pending. Absent: they have not changed. */
  readonly imagesSince?: Instant | undefined;
  /** The message with which the API server refused to change the pod. */
  readonly refusal?: string | undefined;
}

export interface PodDecision {
  readonly verdict: PodVerdict;
  /** Bound to the version that Berth read. Absent: nothing is missing, or Berth cannot decide yet. */
  readonly patch?: readonly JsonPatchOperation[];
  /** Write it before `patch`: Berth may not watch the pod any more once it is released. Absent: no change. */
  readonly condition?: PodStatusPatch;
  /** Does the patch lift our gate? */
  readonly isLifted: boolean;
  /** A failure to report to the user of the pod. */
  readonly finding?: Finding;
  /** Images that Berth has to look up. */
  readonly wants: readonly ImageQuestion[];
  readonly outcome: WorkloadOutcome;
  /** When the verdict may change without an event, ms from now. */
  readonly recheckAfterMs?: number;
}

/**
 * After a start, Berth waits this long for facts before it releases a pod whose `maxHold` is over, ms. Otherwise a
 * restart would release all pods that waited during the outage, without facts.
 */
export const FIRST_LOOK_MS = 5000;

/**
 * Berth keeps a gate that no known policy asks for this long after pod creation, ms. Another replica may have added it
 * for a policy that this replica has not read yet. Berth cannot narrow a released pod.
 */
export const UNEXPLAINED_GATE_MS = 2000;

/** Reasons that are no failure. */
const QUIET: ReadonlySet<Reason> = new Set<Reason>([
  reasons.ArchitectureOptedOut,
  reasons.ArchitecturesGiven,
  reasons.ArchitectureLeftToPod,
  reasons.ArchitectureUnrestricted,
  reasons.ArchitecturesResolved,
  reasons.ImagesPending,
]);

/** `Pod default/web-1`, as in outcomes. */
export function podName({ metadata }: Pod): string {
  return `Pod ${pathOf(metadata)}`;
}

/** Does the scheduler still have to place the pod? Berth changes no other pods. */
export function isUnscheduled({ metadata, spec, status }: Pod): boolean {
  const { phase = "Pending" } = status ?? {};
  return metadata?.deletionTimestamp === undefined && !spec?.nodeName && phase === "Pending";
}

/**
 * Does the pod show that admission has placed it? Its affinity names architectures, no gate holds it, and it tolerates
 * these keys for each architecture. Then Berth has nothing to decide.
 */
export function isPlaced(pod: Pod, keys: readonly string[]): boolean {
  const { spec = { containers: [] } } = pod;
  const architectures = narrowedTo(spec);
  if (architectures.length === 0 || gateIndex(spec) >= 0 || standingCondition(pod) !== undefined)
    return false;
  return keys.every((key) =>
    architectures.every((value) => tolerates(spec.tolerations, { key, value, effect: "NoSchedule" })),
  );
}

/**
 * Gives a pod the tolerations of its verdict, whichever policy governs it. Lifts our gate when the verdict lets the pod
 * run, when `maxHold` ends, or when no policy holds the pod. The same patch narrows the affinity. After a refusal Berth
 * only lifts the gate. Admission plugins that check every change of a pod (pod security, security context constraints)
 * allow that.
 */
export function decidePod(view: PodView): PodDecision {
  const { pod, policy, keys, observations, now, refusal } = view;
  const { metadata = {}, spec = { containers: [] } } = pod;
  const { namespace = "", annotations = {} } = metadata;
  const isHeld = isHeldFor(policy, { namespace, metadata });
  const isGated = gateIndex(spec) >= 0;
  const unexplainedMs = isGated && !isHeld ? ageLeft(view) : 0;
  const heldSince = unexplainedMs > 0 ? undefined : heldFrom(view, isGated);
  const verdict = judge({ namespace, annotations, spec, policy }, observations, { now, heldSince });
  const { missing, uncovered, phase } = coverOf(spec.tolerations, keys, verdict);
  if (unexplainedMs > 0) {
    // Berth adds no tolerations either, because it cannot remove them later.
    const outcome = { rule: policy?.rule, uncovered, phase: "waiting" } as const;
    return { verdict, isLifted: false, wants: wantsOf(verdict), outcome, recheckAfterMs: unexplainedMs };
  }
  const lift = !isHeld || isSettled(verdict) ? liftGate(spec) : [];
  const changes = [
    ...appendTolerations(spec.tolerations, missing, POD_TOLERATIONS),
    ...(isHeld && lift.length > 0 ? narrow(spec, verdict, policy.spec.preferences) : []),
    ...lift,
  ];
  const sent = refusal === undefined ? changes : lift;
  const { resourceVersion } = metadata;
  const isOpen = isGated || keys.length > 0;
  // Without our gate or taints, the scheduler places the pod, and Berth could not update the condition later.
  const isImpossible = verdict.kind === "impossible";
  const condition = conditionPatch(pod, isOpen && isImpossible ? verdict : undefined, now);
  const isTold = isOpen || isImpossible;
  const finding = isTold ? findingOf(view, verdict, changes.length > 0) : undefined;
  const expiresAt = policy && heldSince !== undefined ? heldSince + policy.maxHoldMs : undefined;
  const recheckAfterMs = isOpen ? recheckAfter(verdict, { now, expiresAt }) : undefined;
  return {
    verdict,
    isLifted: lift.length > 0,
    ...(condition && { condition }),
    ...(sent.length > 0 &&
      resourceVersion !== undefined && { patch: [...guards(resourceVersion, spec), ...sent] }),
    ...(finding && { finding }),
    // Without our gate or taints, facts would change nothing, so Berth asks for none.
    wants: isOpen ? wantsOf(verdict) : [],
    outcome: { rule: policy?.rule, uncovered, phase: isTold ? phase : "settled" },
    ...(recheckAfterMs !== undefined && { recheckAfterMs }),
  };
}

/** Time until the pod is `UNEXPLAINED_GATE_MS` old, ms. An API server clock that is ahead does not extend it. */
function ageLeft({ pod, now, seenSince = now }: PodView): number {
  const createdAt = Date.parse(pod.metadata?.creationTimestamp ?? "");
  if (Number.isNaN(createdAt)) return 0;
  return Math.min(createdAt, seenSince) + UNEXPLAINED_GATE_MS - now;
}

/**
 * The hold of a gated pod starts at its creation, but ends at least `FIRST_LOOK_MS` after this process first saw it.
 * Without the gate, it starts when this process first saw the pod: nothing held it before. New images restart the hold.
 */
function heldFrom(view: PodView, isGated: boolean): Instant | undefined {
  const { pod, policy, now, seenSince = now, imagesSince = Number.NEGATIVE_INFINITY } = view;
  if (policy === undefined) return undefined;
  const createdAt = Date.parse(pod.metadata?.creationTimestamp ?? "");
  if (!isGated || Number.isNaN(createdAt)) return Math.max(seenSince, imagesSince);
  const firstLook = seenSince + Math.min(FIRST_LOOK_MS - policy.maxHoldMs, 0);
  // An API server clock that is ahead does not extend the hold.
  return Math.max(Math.min(createdAt, seenSince), firstLook, imagesSince);
}

function findingOf(
  { pod, refusal }: PodView,
  { reason, message }: PodVerdict,
  hasChanges: boolean,
): Finding | undefined {
  const subject = podName(pod);
  if (refusal !== undefined && hasChanges) {
    return { reason: reasons.PodPatchRefused, severity: "warning", subject, message: refusal };
  }
  return QUIET.has(reason) ? undefined : { reason, severity: "warning", subject, message };
}
