/** Tolerations, by the rules of the scheduler. */
import type { Taint, Toleration } from "@berth/kube";

/**
 * True when the scheduler could put a pod with these tolerations on a node with this taint
 * (`Toleration.ToleratesTaint`, k8s.io/api/core/v1). A toleration without an effect is for every effect; without a key,
 * for every key. `Lt` and `Gt` tolerate nothing, as on a server without the feature gate
 * `TaintTolerationComparisonOperators` (alpha in 1.36). Ignores eviction after `tolerationSeconds`.
 */
export function tolerates(
  tolerations: readonly Toleration[] | undefined,
  taint: Pick<Taint, "key" | "value" | "effect">,
): boolean {
  return (tolerations ?? []).some((toleration) => {
    if (!isFor(toleration, taint)) return false;
    const { operator = "", value = "" } = toleration;
    if (operator === "Exists") return true;
    return (operator === "" || operator === "Equal") && value === (taint.value ?? "");
  });
}

/** True when one of them tolerates the taint with any value. */
export function toleratesAnyValue(
  tolerations: readonly Toleration[] | undefined,
  taint: Pick<Taint, "key" | "effect">,
): boolean {
  return (tolerations ?? []).some((it) => it.operator === "Exists" && isFor(it, taint));
}

function isFor({ key = "", effect = "" }: Toleration, taint: Pick<Taint, "key" | "effect">): boolean {
  return (effect === "" || effect === taint.effect) && (key === "" || key === taint.key);
}

/** `key:effect`, or `key=value:effect` with a value. */
export function tolerationText({ key = "", value = "", effect = "" }: Toleration): string {
  return `${key}${value === "" ? "" : `=${value}`}:${effect}`;
}
