/** Decides what the provider `pods` does about one Instance. Pure. */
import type { Pod } from "@berth/kube";
import { findCondition, fromTime } from "@berth/runtime";
import { isOwnedBy, ownerOf } from "../api/owner.ts";
import type { Seen } from "../api/seen.ts";
import type { Instance } from "../api/workload.ts";
import type { InstanceRules } from "../fleet/document.ts";
import type { Contribution, InstanceDecision, PodMemory } from "../instance/view.ts";
import { buildPod } from "./build.ts";
import { misconfigured, observePod, starting } from "./observe.ts";

export interface PodView {
  readonly instance: Instance;
  /** The Pod with the name of the Instance, whoever owns it. */
  readonly pod: Seen<Pod>;
  /** Wall time, ms. */
  readonly nowMs: number;
  /** A scheduling gate remains. */
  readonly isGated: boolean;
  readonly rules: InstanceRules;
  /** Why the API server refused the last Pod of this Instance, as a sentence: it is forbidden, invalid, or exists. */
  readonly refusal?: string | undefined;
  /** Default: this process sees the Pod for the first time. */
  readonly memory?: PodMemory | undefined;
}

export interface PodDecision {
  readonly pod?: InstanceDecision["pod"];
  /** Without conditions: the status stays as it is. */
  readonly contribution: Contribution;
  /** The Instance is being deleted, and no Pod of it exists: its finalizer may go. */
  readonly isDown: boolean;
}

/**
 * A Pod that has ended early is kept until Berth has known it for this long. So a kubelet that refuses each Pod at once
 * does not cause a loop of Pods. See `holdMs`.
 */
const MIN_HOLD_MS = 10_000;
const MAX_HOLD_MS = 300_000;

/**
 * Deletions wait for the kubelet: Berth never forces one. A Pod of another owner is never touched. A Pod that was not
 * read changes nothing.
 */
export function decidePod(view: PodView): PodDecision {
  const { instance, pod: seen, nowMs, isGated } = view;
  if (seen.is === "unknown") return nothing;
  const pod = seen.is === "there" ? seen.value : undefined;
  const isOurs = pod !== undefined && isOwnedBy(pod, instance);
  if (instance.metadata?.deletionTimestamp !== undefined)
    return isOurs ? { ...nothing, ...deletion(pod, "its Instance is deleted") } : down;
  if (isGated) return nothing;
  const { templateHash } = instance.spec?.controller ?? {};
  const decided = (contribution: Contribution, action: Pick<PodDecision, "pod"> = {}): PodDecision => ({
    ...action,
    contribution: { ...contribution, observedTemplateHash: templateHash },
    isDown: false,
  });
  if (pod === undefined) {
    const built = buildPod(instance, view.rules);
    if ("fault" in built) return decided(misconfigured(built.fault));
    const { refusal } = view;
    const contribution = refusal ? misconfigured(refusal) : starting("The pod is being created");
    return decided(contribution, { pod: { do: "create", pod: built.pod } });
  }
  if (!isOurs) return decided(misconfigured(describeForeign(pod)));
  if (pod.metadata?.deletionTimestamp !== undefined) return decided(starting(describeEnding(pod)));
  const { phase } = pod.status ?? {};
  if (phase !== "Failed" && phase !== "Succeeded") return decided(observePod(pod, nowMs));
  const { knownMs, ended } = view.memory ?? { knownMs: 0, ended: 1 };
  const afterMs = holdMs(pod, instance, ended);
  const why = describeEnd(pod);
  if (knownMs >= afterMs) return decided(starting(`${why}. Berth replaces it`), deletion(pod, why));
  const waiting = starting(`${why}. Berth replaces it after ${Math.round(afterMs / 1000)} s`);
  return decided({ ...waiting, recheckAfterMs: afterMs - knownMs });
}

const nothing: PodDecision = { contribution: { conditions: [] }, isDown: false };
const down: PodDecision = { ...nothing, isDown: true };

function deletion(pod: Pod, message: string): Pick<PodDecision, "pod"> {
  return pod.metadata?.deletionTimestamp === undefined ? { pod: { do: "delete", pod, message } } : {};
}

/**
 * The hold doubles from Pod to Pod (10, 20, 40 s, ...), by what this process has seen and by the time from when the
 * Instance became unavailable to the creation of this Pod. The condition `Available` has that time, so a restart forgets
 * nothing; but it is of another clock than the Pod, so the larger of both counts. It begins anew once a Pod was ready.
 */
function holdMs({ metadata }: Pod, { status }: Instance, ended: number): number {
  const createdMs = fromTime(metadata?.creationTimestamp) ?? 0;
  const available = findCondition(status?.conditions, "Available");
  // Before a provider has written it, the condition is Unknown, with the time 1970 of the CRD's default.
  const downSince = available?.status === "False" ? fromTime(available.lastTransitionTime) : undefined;
  const wasDownMs = createdMs - (downSince ?? createdMs);
  return Math.min(MAX_HOLD_MS, Math.max(MIN_HOLD_MS * 2 ** (ended - 1), wasDownMs));
}

function describeForeign(pod: Pod): string {
  const { metadata = {} } = pod;
  const owner = ownerOf(pod);
  const whose =
    owner === undefined ? "has no controller" : `belongs to ${owner.kind} ${owner.name} (uid ${owner.uid})`;
  return `Pod ${metadata.namespace}/${metadata.name} exists and ${whose}. Delete it, so that Berth can create its own.`;
}

function describeEnding({ spec }: Pod): string {
  const wait = spec?.nodeName ? `the kubelet of node ${spec.nodeName} has ended it` : "it is gone";
  return `The pod is being deleted. Berth replaces it once ${wait}`;
}

/** `The pod has ended (Evicted: The node was low on resource: memory)` */
function describeEnd({ status }: Pod): string {
  const { phase, reason, message } = status ?? {};
  return `The pod has ended (${[reason ?? phase, message?.replace(/\.?\s*$/, "")].filter(Boolean).join(": ")})`;
}
