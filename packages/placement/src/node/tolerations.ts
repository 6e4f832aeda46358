/** Tolerations, by the rule of the scheduler. */
import type { Taint, Toleration } from "@berth/kube";

/**
 * Would the scheduler put a pod with these tolerations on a node with this taint? By the rule of Kubernetes
 * (`Toleration.ToleratesTaint`, k8s.io/api/core/v1): without an effect a toleration is for every effect, without a
 * key for every key. The operators `Lt` and `Gt` tolerate nothing, as on a server without the gate
 * `TaintTolerationComparisonOperators` (alpha in 1.36). Whether a pod is evicted after `tolerationSeconds` is not asked.
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

/** Does one of them do so whatever the value of the taint? */
export function toleratesAnyValue(
  tolerations: readonly Toleration[] | undefined,
  taint: Pick<Taint, "key" | "effect">,
): boolean {
  return (tolerations ?? []).some((it) => it.operator === "Exists" && isFor(it, taint));
}

function isFor({ key = "", effect = "" }: Toleration, taint: Pick<Taint, "key" | "effect">): boolean {
  return (effect === "" || effect === taint.effect) && (key === "" || key === taint.key);
}

/** As a taint is written, or with its value where the toleration asks for one. */
export function tolerationText({ key = "", value = "", effect = "" }: Toleration): string {
  return `${key}${value === "" ? "" : `=${value}`}:${effect}`;
}
