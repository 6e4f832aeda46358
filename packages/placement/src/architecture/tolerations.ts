/** Decides which tolerations a verdict gives, and which are missing. Berth only ever appends tolerations. */
import type { JsonPatchOperation, Toleration } from "@berth/kube";
import { tolerates, toleratesAnyValue } from "../node/tolerations.ts";
import type { PodVerdict, WorkloadOutcome } from "./pod-view.ts";
import { isSettled, lacksFacts } from "./verdict.ts";

const EFFECT = "NoSchedule";

/** Path in a pod. The path in a pod template is `/spec/template/spec/tolerations`. */
export const POD_TOLERATIONS = "/spec/tolerations";

type Tolerations = readonly Toleration[] | undefined;

/**
 * Returns the tolerations that a pod with this verdict lacks for these taint keys. It gives one for each architecture,
 * as archaware-controller writes it (fields in this order, no operator), or one for all if nothing restricts the pod.
 * It gives none without a verdict, for a pod that can run nowhere, or for taints that the pod already tolerates.
 */
export function missingTolerations(
  standing: Tolerations,
  keys: readonly string[],
  verdict: PodVerdict,
): readonly Toleration[] {
  if (verdict.kind === "any") {
    return keys
      .filter((key) => !toleratesAnyValue(standing, { key, effect: EFFECT }))
      .map((key) => ({ key, operator: "Exists", effect: EFFECT }));
  }
  if (verdict.kind !== "fits") return [];
  return keys.flatMap((key) =>
    verdict.architectures
      .map((value) => ({ key, value, effect: EFFECT }))
      .filter((taint) => !tolerates(standing, taint)),
  );
}

/**
 * Returns what a pod or template with this verdict lacks, and which taint keys it holds back. Without all facts, it
 * adds nothing for a key that already has tolerations: Berth may get lost facts back.
 */
export function coverOf(
  standing: Tolerations,
  keys: readonly string[],
  verdict: PodVerdict,
): Pick<WorkloadOutcome, "uncovered" | "phase"> & { readonly missing: readonly Toleration[] } {
  const isKept = isSettled(verdict) && lacksFacts(verdict);
  const asked = isKept ? keys.filter((key) => !hasTolerationOf(standing, key)) : keys;
  return {
    missing: missingTolerations(standing, asked, verdict),
    uncovered: uncoveredKeys(standing, asked, verdict),
    phase: isSettled(verdict) ? "settled" : verdict.kind,
  };
}

/** Is there a toleration for this key, with any value? A toleration for all keys does not count. */
export function hasTolerationOf(standing: Tolerations, key: string): boolean {
  return (standing ?? []).some((it) => it.key === key && ["", EFFECT].includes(it.effect ?? ""));
}

/**
 * Keys with which Berth must not taint nodes until the pod has its tolerations or a verdict. A pod that can run
 * nowhere, or that the policy keeps unresolved, holds back no key.
 */
function uncoveredKeys(
  standing: Tolerations,
  keys: readonly string[],
  verdict: PodVerdict,
): readonly string[] {
  if (verdict.kind === "waiting") {
    return keys.filter((key) => !toleratesAnyValue(standing, { key, effect: EFFECT }));
  }
  const missing = new Set(missingTolerations(standing, keys, verdict).map(({ key }) => key));
  return keys.filter((key) => missing.has(key));
}

/** Appends them to the existing ones. @param path of the list in the object. */
export function appendTolerations(
  standing: Tolerations | null,
  missing: readonly Toleration[],
  path: string,
): readonly JsonPatchOperation[] {
  if (missing.length === 0) return [];
  if (standing === undefined || standing === null || standing.length === 0) {
    return [{ op: "add", path, value: missing }];
  }
  return missing.map((value) => ({ op: "add", path: `${path}/-`, value }));
}
