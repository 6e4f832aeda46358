/** What would evict a pod, as plain data. Pure. */
import type { Node, Pod } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import type { BudgetProblem } from "./budgets.ts";
import { type EvictionView, tooSmall } from "./decide.ts";
import type { FitResult } from "./fit.ts";
import { type JudgeObservations, judge, scopedKeys } from "./judge.ts";
import type { DeschedulePolicyInForce } from "./policy.ts";

export interface PodDescheduling {
  /** `cluster/default`. */
  readonly policy: string;
  readonly state: "Fits" | "Lost" | "Stays" | "Unknown";
  /** Absent while the pod fits its node. */
  readonly reason?: string;
  readonly message: string;
}

interface ExplainSight extends Pick<EvictionView, "replicasOf"> {
  readonly observations: JudgeObservations;
  readonly fit: (pod: Pod, how: "True" | "PendingOk") => FitResult;
  readonly budgetProblem: BudgetProblem;
}

const UNKNOWN = "Berth cannot tell now whether its node is right for it";

/** One entry for each policy that is about the pod. */
export function explainDescheduling(
  pod: Pod,
  node: Node | undefined,
  policies: readonly DeschedulePolicyInForce[],
  { observations, fit, budgetProblem, replicasOf }: ExplainSight,
): readonly PodDescheduling[] {
  return policies.flatMap((policy): readonly PodDescheduling[] => {
    const verdict = judge(pod, node, policy, observations);
    const { rule, spec } = policy;
    const of = { policy: rule };
    if (verdict.state === "outside") return [];
    if (verdict.state === "stays")
      return [{ ...of, state: "Stays", reason: verdict.reason, message: verdict.message }];
    if (verdict.state === "unknown")
      return [{ ...of, state: "Unknown", message: verdict.message ?? UNKNOWN }];
    if (verdict.state === "fits")
      return [{ ...of, state: "Fits", message: wouldEvict(pod, policy, observations) }];
    if (spec.dryRun) return [{ ...of, state: "Lost", reason: reasons.DryRun, message: verdict.message }];
    const small = tooSmall(pod, policy, replicasOf);
    if (small !== undefined)
      return [
        { ...of, state: "Lost", reason: reasons.OwnerTooSmall, message: `${verdict.message}; ${small}` },
      ];
    const found = spec.requireFit === "False" ? undefined : fit(pod, spec.requireFit);
    if (found !== undefined && "reason" in found)
      return [
        { ...of, state: "Lost", reason: found.reason, message: `${verdict.message}; ${found.message}` },
      ];
    const kept = budgetProblem(pod);
    if (kept !== undefined) {
      const message = `${verdict.message}; ${kept}`;
      return [{ ...of, state: "Lost", reason: reasons.DisruptionBudget, message }];
    }
    const where = found === undefined ? "" : `; node ${found.node} is right for it`;
    const message = `${verdict.message}; Berth evicts it after ${spec.for}${where}`;
    return [{ ...of, state: "Lost", reason: reasons.EvictionDelayed, message }];
  });
}

function wouldEvict(pod: Pod, policy: DeschedulePolicyInForce, observations: JudgeObservations): string {
  const { spec } = policy;
  const keys = scopedKeys(pod, policy, observations) ?? [];
  const what = [
    ...(keys.length > 0 ? [`its node no longer matches it in ${keys.join(", ")}`] : []),
    ...(spec.taints.length > 0
      ? [`its node gets a taint of ${spec.taints.join(", ")} that it does not tolerate`]
      : []),
  ];
  return `Berth evicts it when ${what.join(", or ")} for ${spec.for}`;
}
