/** Which tolerations a verdict gives, and which of them are missing. They are only ever appended. */
import type { JsonPatchOperation, Toleration } from "@berth/kube";
import { tolerates, toleratesAnyValue } from "../node/tolerations.ts";
import type { PodVerdict, WorkloadOutcome } from "./pod-view.ts";
import { isSettled, lacksFacts } from "./verdict.ts";

const EFFECT = "NoSchedule";

/** Of a pod. That of a pod template is `/spec/template/spec/tolerations`. */
export const POD_TOLERATIONS = "/spec/tolerations";

type Tolerations = readonly Toleration[] | undefined;

/**
 * What a pod with this verdict lacks of tolerating the taints with these keys: one toleration for each architecture, as
 * archaware-controller writes it (fields in this order, no operator), or one for all where nothing restricts it. None
 * without a verdict, and none for a pod that can run nowhere. What is tolerated already, in whatever words, is not added.
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
 * What a pod or template with this verdict lacks, and which keys nodes must not be tainted with for it. Without all facts
 * nothing is added to what was given when there were some: facts can be lost, and come back.
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

/** Of whichever value. A toleration of every key is none of this one. */
export function hasTolerationOf(standing: Tolerations, key: string): boolean {
  return (standing ?? []).some((it) => it.key === key && ["", EFFECT].includes(it.effect ?? ""));
}

/**
 * Keys that nodes must not be tainted with before the pod has changed or is understood. A pod that can run nowhere, or
 * whose images stay unresolved by policy, keeps nothing back.
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

/** Puts them behind those that stand. @param path of the list in the object. */
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
