/** Whether PodDisruptionBudgets let a pod be evicted now. Pure: for commands, as the API server tells a running Berth. */
import { type Pod, type PodDisruptionBudget, pathOf } from "@berth/kube";
import { matchesSelector } from "../node/selector.ts";
import { isReady } from "./ledger.ts";

/** Why the API server would refuse the eviction, and what would help. `undefined`: no budget keeps the pod. */
export type BudgetProblem = (pod: Pod) => string | undefined;

/** The rules of `registry/core/pod/storage/eviction.go`. */
export function budgetProblem(budgets: readonly PodDisruptionBudget[]): BudgetProblem {
  const byNamespace = Map.groupBy(budgets, ({ metadata }) => metadata?.namespace ?? "");
  return (pod) => {
    const { namespace = "", labels = {}, deletionTimestamp } = pod.metadata ?? {};
    if (deletionTimestamp !== undefined || pod.status?.phase !== "Running") return undefined;
    const selecting = (byNamespace.get(namespace) ?? []).filter(
      ({ spec }) => spec?.selector !== undefined && matchesSelector(spec.selector, labels),
    );
    const [budget, ...more] = selecting;
    if (budget === undefined) return undefined;
    if (more.length > 0) {
      const names = selecting.map(({ metadata }) => metadata?.name).join(" and ");
      return `Kubernetes evicts no pod that several PodDisruptionBudgets select, as ${names} do: leave one of them`;
    }
    return allows(budget, pod) ? undefined : refusal(budget);
  };
}

function allows({ spec, status }: PodDisruptionBudget, pod: Pod): boolean {
  const { currentHealthy = 0, desiredHealthy = 0, disruptionsAllowed = 0 } = status ?? {};
  if (isReady(pod)) return disruptionsAllowed > 0;
  const isFree = spec?.unhealthyPodEvictionPolicy === "AlwaysAllow";
  return isFree || disruptionsAllowed > 0 || (desiredHealthy > 0 && currentHealthy >= desiredHealthy);
}

function refusal({ metadata, status }: PodDisruptionBudget): string {
  const { currentHealthy = 0, desiredHealthy = 0, expectedPods = 0 } = status ?? {};
  const help =
    expectedPods > desiredHealthy
      ? `it allows one once ${desiredHealthy + 1} are healthy`
      : "it never allows one: give its owner another replica, or the budget maxUnavailable: 1";
  return `PodDisruptionBudget ${pathOf(metadata)} allows 0 evictions now: ${currentHealthy} of ${expectedPods} pods are healthy, and it wants ${desiredHealthy}; ${help}`;
}
