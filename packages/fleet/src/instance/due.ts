/** Whether a status is worth a write, and when: writes of thousands of Instances add up. Pure. */
import type { Condition } from "@berth/kube";
import { findCondition, fromTime } from "@berth/runtime";
import type { Instance, InstanceStatus } from "../api/workload.ts";
import { awaitsQuota } from "./tiers.ts";
import type { InstanceView } from "./view.ts";

/** A new Instance reports that it waits only after this time, ms: a quick grant makes one status of two. */
const COALESCE_MS = 100;
/** A new pod is reported as not ready only after this time, ms. Creation times have whole seconds, hence one more. */
const POD_START_MS = 2000;
/** An Instance that became Ready stays so for this time, ms: a provider that flips cannot cause a flood of writes. */
const FLIP_MS = 1000;

/**
 * A newer generation alone is no news, since only gates may change in a spec. The exception is a grant while it opens a
 * gate: that of another generation does not count.
 */
export function saysTheSame(next: InstanceStatus, instance: Instance): boolean {
  const stored = instance.status;
  const isSame = (condition: Condition): boolean => {
    const { type, status, reason, message, observedGeneration } = condition;
    const present = findCondition(stored?.conditions, type);
    if (
      type === "QuotaGranted" &&
      status === "True" &&
      awaitsQuota(instance) &&
      present?.observedGeneration !== observedGeneration
    )
      return false;
    return present?.status === status && present.reason === reason && present.message === message;
  };
  return (
    next.networkInterfaces === stored?.networkInterfaces &&
    next.controller?.observedTemplateHash === stored?.controller?.observedTemplateHash &&
    (next.conditions ?? []).every(isSame)
  );
}

/**
 * Ms until a status is due that a better one may replace soon; 0: an event brings the next look. `undefined`: it is due
 * now.
 */
export function coalesceMs(view: InstanceView, next: InstanceStatus): number | undefined {
  const { instance, nowMs, knownMs, provider } = view;
  const stored = instance.status?.conditions;
  const ready = findCondition(next.conditions, "Ready");
  const granted = findCondition(next.conditions, "QuotaGranted");
  if (awaitsQuota(instance)) {
    const leftMs = COALESCE_MS - knownMs;
    const isWaiting = ready?.reason === "SchedulingGatesPresent" && granted?.status !== "True";
    return isWaiting && leftMs > 0 ? leftMs : undefined;
  }
  const before = findCondition(stored, "Ready");
  if (before?.status === "True") {
    const leftMs = (fromTime(before.lastTransitionTime) ?? -Infinity) + FLIP_MS - nowMs;
    // A longer wait is that of another clock: an Instance that is down must not look Ready for so long.
    return ready?.status !== "True" && leftMs > 0 && leftMs <= FLIP_MS ? leftMs : undefined;
  }
  const isNews = findCondition(stored, "QuotaGranted")?.status !== granted?.status;
  if (provider.is !== "pods" || isNews || !STARTING.has(ready?.reason ?? "")) return undefined;
  if (provider.pod.is !== "there") return 0;
  const createdMs = fromTime(provider.pod.value.metadata?.creationTimestamp) ?? -Infinity;
  const leftMs = createdMs + POD_START_MS - nowMs;
  return leftMs > 0 && leftMs <= POD_START_MS ? leftMs : undefined;
}

/** Reasons of Ready while a pod starts. */
const STARTING: ReadonlySet<string> = new Set(["PendingProgramming", "Provisioning", "Pending"]);
