/** The request that asks for the end of a pod, and how the API server says that a budget forbids it. */
import type { ApiError, FailureCause } from "@berth/kube";

export const EVICTION = { apiVersion: "policy/v1", kind: "Eviction" };

/** The PodDisruptionBudget that refused the eviction. Priority and fairness answers 429 as well, without this cause. */
export function budgetIn({ failure }: ApiError): FailureCause | undefined {
  const causes = failure.kind === "tooManyRequests" ? failure.causes : [];
  return causes.find(({ reason }) => reason === "DisruptionBudget");
}
