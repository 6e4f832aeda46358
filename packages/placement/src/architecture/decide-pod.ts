/** What becomes of a stored pod that has no node yet: tolerations, and the gate lifted with the affinity narrowed. Pure. */
import type { JsonPatchOperation, Pod } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import type { Finding, Instant } from "../node/capability.ts";
import { tolerates } from "../node/tolerations.ts";
import { narrowedTo } from "./affinity.ts";
import { isHeldFor } from "./govern.ts";
import type { ImageQuestion, ImageSight } from "./image-sight.ts";
import { conditionPatch, type PodStatusPatch, standingCondition } from "./pod-condition.ts";
import { gateIndex, guards, liftGate, narrow } from "./pod-patch.ts";
import type { PodVerdict, WorkloadOutcome } from "./pod-view.ts";
import type { ArchitecturePolicyInForce } from "./policy.ts";
import { appendTolerations, coverOf, POD_TOLERATIONS } from "./tolerations.ts";
import { isSettled, judge, recheckAfter, wantsOf } from "./verdict.ts";

/** Everything by which a pod is decided. */
export interface PodView {
  readonly pod: Pod;
  /** That governs it. */
  readonly policy: ArchitecturePolicyInForce | undefined;
  /** Of taints in force, whatever governs the pod: `taintKeys`. */
  readonly keys: readonly string[];
  readonly sight: ImageSight;
  readonly now: Instant;
  /** Since when this process has seen the pod under this policy. */
  readonly seenSince?: Instant | undefined;
  /** Since when its images are these, where they have been changed: pods may get others while they are pending. */
  readonly imagesSince?: Instant | undefined;
  /** What the API server said when it refused to change the pod. */
  readonly refusal?: string | undefined;
}

export interface PodDecision {
  readonly verdict: PodVerdict;
  /** Bound to the version that was looked at. Absent: nothing is missing, or cannot be told yet. */
  readonly patch?: readonly JsonPatchOperation[];
  /** Of its status, and to be written before `patch`: a pod that is let go may leave our view. Absent: it stands right. */
  readonly condition?: PodStatusPatch;
  /** Does the patch lift our gate? */
  readonly isLifted: boolean;
  /** A failure that the user of the pod should hear of. */
  readonly finding?: Finding;
  /** Images whose facts have to come. */
  readonly wants: readonly ImageQuestion[];
  readonly outcome: WorkloadOutcome;
  /** When the verdict changes by itself. */
  readonly recheckAfterMs?: number;
}

/**
 * A process that has just come up asks for facts before it lets a pod go whose time is over, ms. So that pods which
 * were held while nobody was there to decide do not all go anywhere.
 */
export const FIRST_LOOK_MS = 5000;

/**
 * A gate that nothing here asks for stays for so long after the pod was made, ms: who has put it on knows of a policy, and
 * with several replicas that may be on its way to this one still. A pod that is let go cannot be narrowed any more.
 */
export const UNEXPLAINED_GATE_MS = 2000;

/** Reasons that tell of no failure. */
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
  return `Pod ${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}

/** Is it still to be scheduled? Whatever else there is stays as it is. */
export function isUnscheduled({ metadata, spec, status }: Pod): boolean {
  const { phase = "Pending" } = status ?? {};
  return metadata?.deletionTimestamp === undefined && !spec?.nodeName && phase === "Pending";
}

/**
 * Does the pod itself show what admission has decided: kept to architectures, not held, and tolerating these keys for each
 * of the architectures? Then nothing is left to decide.
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
 * A pod gets the tolerations that its verdict gives, whatever governs it. Our gate goes with a verdict that lets it run,
 * with `maxHold`, or where nothing holds the pod any more; in the same patch its affinity is narrowed. After a refusal
 * only the gate goes: admission that judges every change of a pod (pod security, security context constraints) knows
 * that one.
 */
export function decidePod(view: PodView): PodDecision {
  const { pod, policy, keys, sight, now, refusal } = view;
  const { metadata = {}, spec = { containers: [] } } = pod;
  const { namespace = "", annotations = {} } = metadata;
  const isHeld = isHeldFor(policy, { namespace, metadata });
  const isGated = gateIndex(spec) >= 0;
  const unexplainedMs = isGated && !isHeld ? ageLeft(view) : 0;
  const heldSince = unexplainedMs > 0 ? undefined : heldFrom(view, isGated);
  const verdict = judge({ namespace, annotations, spec, policy }, sight, { now, heldSince });
  const { missing, uncovered, phase } = coverOf(spec.tolerations, keys, verdict);
  if (unexplainedMs > 0) {
    // Nothing is given to it either: tolerations cannot be taken off again.
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
  // A pod that nothing of ours keeps pending gets a node, and leaves our view with whatever was said of it.
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
    // Nobody is asked about the images of a pod that the verdict can do nothing for.
    wants: isOpen ? wantsOf(verdict) : [],
    outcome: { rule: policy?.rule, uncovered, phase: isTold ? phase : "settled" },
    ...(recheckAfterMs !== undefined && { recheckAfterMs }),
  };
}

/** How much younger than `UNEXPLAINED_GATE_MS` it is, ms. A clock of the API server that is ahead makes it no younger. */
function ageLeft({ pod, now, seenSince = now }: PodView): number {
  const createdAt = Date.parse(pod.metadata?.creationTimestamp ?? "");
  if (Number.isNaN(createdAt)) return 0;
  return Math.min(createdAt, seenSince) + UNEXPLAINED_GATE_MS - now;
}

/**
 * A gated pod waits since its creation, whoever was there to see it, and `FIRST_LOOK_MS` at least; one without the gate
 * since it was first seen, as nothing has held it before. Other images are waited for anew.
 */
function heldFrom(view: PodView, isGated: boolean): Instant | undefined {
  const { pod, policy, now, seenSince = now, imagesSince = Number.NEGATIVE_INFINITY } = view;
  if (policy === undefined) return undefined;
  const createdAt = Date.parse(pod.metadata?.creationTimestamp ?? "");
  if (!isGated || Number.isNaN(createdAt)) return Math.max(seenSince, imagesSince);
  const firstLook = seenSince + Math.min(FIRST_LOOK_MS - policy.maxHoldMs, 0);
  // A clock of the API server that is ahead holds nobody longer.
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
