/** Takes an Instance down that is being deleted: its pod, then its claim, then the finalizers of Berth. Pure. */
import { findCondition } from "@berth/runtime";
import { finalizers } from "../api/keys.ts";
import type { PodDecision } from "../pods/decide.ts";
import { relationOf } from "./claim.ts";
import { lookEveryMs } from "./tiers.ts";
import type { InstanceDecision, InstanceView } from "./view.ts";

const OURS: ReadonlySet<string> = new Set([finalizers.instance, finalizers.claim]);

/**
 * Quota is freed last: it is overdrawn while the workload of a freed claim still runs.
 * @param down what the provider `pods` does. `undefined`: another program runs the workload, and has its finalizer.
 */
export function decideRelease(view: InstanceView, down: PodDecision | undefined): InstanceDecision {
  const present = view.instance.metadata?.finalizers ?? [];
  const others = present.filter((one) => !OURS.has(one));
  if (others.length === present.length) return {};
  if (others.length > 0) return { waitsFor: `Finalizers ${others.join(", ")}` };
  if (down?.isDown === false) return { ...(down.pod && { pod: down.pod }), waitsFor: "The end of the pod" };
  return releaseClaim(view) ?? { finalizers: [] };
}

/** `undefined`: it is gone, or it never was. */
function releaseClaim(view: InstanceView): InstanceDecision | undefined {
  const { instance, quota, nowMs } = view;
  if (quota.is === "off") {
    const granted = findCondition(instance.status?.conditions, "QuotaGranted");
    return granted?.status === "True" && granted.reason !== "QuotaDisabled"
      ? orphaned("no quota service is configured")
      : undefined;
  }
  const recheckAfterMs = lookEveryMs(instance, nowMs);
  if (quota.is === "failed") return { recheckAfterMs, waitsFor: quota.message };
  if (quota.is === "unresolvable") return orphaned(quota.message);
  const { claim } = quota;
  if (claim.is === "unknown") return { recheckAfterMs, waitsFor: claim.because };
  if (claim.is === "none" || relationOf(claim.value, view, quota.project) === "foreign") return undefined;
  const isDeleting = claim.value.metadata?.deletionTimestamp !== undefined;
  return {
    ...(!isDeleting && { claim: { do: "delete", claim: claim.value } }),
    recheckAfterMs,
    waitsFor: "The end of the claim",
  };
}

function orphaned(why: string): InstanceDecision {
  const message = `${why}. A claim of this Instance may be left over`;
  return { finalizers: [], news: [{ type: "Warning", reason: "QuotaClaimOrphaned", message }] };
}
