/** When to look at the claim of an Instance again. A missed event is made good within one tier. */
import { fromTime, hasFinalizer } from "@berth/runtime";
import { finalizers, gates } from "../api/keys.ts";
import type { Instance } from "../api/workload.ts";

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;

/** Below this age of the Instance, ms, the wait of the tier applies. */
const TIERS: readonly (readonly [belowMs: number, waitMs: number])[] = [
  [MINUTE_MS, SECOND_MS],
  [5 * MINUTE_MS, 15 * SECOND_MS],
  [10 * MINUTE_MS, MINUTE_MS],
];
const LAST_TIER_MS = 5 * MINUTE_MS;

/** Ms until the next look at an Instance of this age, without jitter. An age below 0 is a clock that differs. */
export function tierMs(ageMs: number): number {
  return TIERS.find(([belowMs]) => ageMs < belowMs)?.[1] ?? LAST_TIER_MS;
}

/** Between looks at the claim of an Instance for which nothing waits. */
const RUNNING_MS = 30 * MINUTE_MS;

export function gatesOf({ spec }: Instance): readonly { readonly name: string }[] {
  return spec?.controller?.schedulingGates ?? [];
}

export function hasGate(instance: Instance, gate: string): boolean {
  return gatesOf(instance).some(({ name }) => name === gate);
}

/** While this gate is there, the Instance waits for quota. */
export function awaitsQuota(instance: Instance): boolean {
  return hasGate(instance, gates.quota);
}

/** Does something wait for the claim: a grant, or its end? */
export function awaitsClaim(instance: Instance): boolean {
  const isGoing = instance.metadata?.deletionTimestamp !== undefined;
  return isGoing ? hasFinalizer(instance, finalizers.claim) : awaitsQuota(instance);
}

/**
 * Ms between two looks at the claim, jitter included. The age counts from the creation of the Instance, or from its
 * deletion. The transition time of QuotaGranted is no anchor: it may be that of the default in the CRD, which is 1970.
 */
export function lookEveryMs(instance: Instance, nowMs: number): number {
  const { creationTimestamp, deletionTimestamp, uid = "" } = instance.metadata ?? {};
  const sinceMs = fromTime(deletionTimestamp ?? creationTimestamp) ?? nowMs;
  return jittered(awaitsClaim(instance) ? tierMs(nowMs - sinceMs) : RUNNING_MS, uid);
}

/**
 * Takes up to a tenth off a wait, always the same for one uid. Instances that were created together then ask apart,
 * and none later than its tier says.
 */
export function jittered(waitMs: number, uid: string): number {
  return Math.round(waitMs * (1 - share(uid) / 10));
}

/** In [0, 1): FNV-1a of the uid. */
function share(uid: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < uid.length; at++) hash = Math.imul(hash ^ uid.charCodeAt(at), 0x01000193);
  return (hash >>> 0) / 2 ** 32;
}
