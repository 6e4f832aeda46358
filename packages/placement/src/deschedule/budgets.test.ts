import type { PodDisruptionBudget } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { budgetProblem } from "./budgets.ts";
import { gpuPod } from "./testing/lost.ts";

type Status = NonNullable<PodDisruptionBudget["status"]>;
const status = (of: Partial<Status>): Status => ({
  currentHealthy: 2,
  desiredHealthy: 2,
  disruptionsAllowed: 0,
  expectedPods: 2,
  ...of,
});
const budget = (
  name: string,
  of: Partial<Status> = {},
  spec: PodDisruptionBudget["spec"] = { selector: {} },
): PodDisruptionBudget => ({ metadata: { name, namespace: "default" }, spec, status: status(of) });

const pod = gpuPod("a").phase("Running");
const TIGHT =
  "PodDisruptionBudget default/web allows 0 evictions now: 2 of 2 pods are healthy, and it wants 2; " +
  "it never allows one: give its owner another replica, or the budget maxUnavailable: 1";

describe("a pod and its PodDisruptionBudgets", () => {
  it.each<[string, readonly PodDisruptionBudget[], string | undefined]>([
    ["without one", [], undefined],
    ["with one of another namespace", [{ ...budget("web"), metadata: { namespace: "other" } }], undefined],
    ["with one of other pods", [budget("web", {}, { selector: { matchLabels: { app: "db" } } })], undefined],
    ["with one that selects nothing", [budget("web", {}, {})], undefined],
    ["with one that allows an eviction", [budget("web", { disruptionsAllowed: 1 })], undefined],
    ["with one that never allows any", [budget("web")], TIGHT],
    [
      "with one that waits for another pod",
      [budget("web", { expectedPods: 3 })],
      "PodDisruptionBudget default/web allows 0 evictions now: 2 of 3 pods are healthy, and it wants 2; it allows one once 3 are healthy",
    ],
    [
      "with two, though both allow it",
      [budget("web", { disruptionsAllowed: 1 }), budget("all", { disruptionsAllowed: 1 })],
      "Kubernetes evicts no pod that several PodDisruptionBudgets select, as web and all do: leave one of them",
    ],
  ])("%s", (_, budgets, expected) => {
    expect(budgetProblem(budgets)(pod.build())).toBe(expected);
  });

  it.each<[string, PodDisruptionBudget, boolean]>([
    ["goes when enough others are healthy", budget("web"), true],
    ["stays when too few are", budget("web", { currentHealthy: 1 }), false],
    [
      "goes always where the budget says so",
      budget("web", { currentHealthy: 1 }, { selector: {}, unhealthyPodEvictionPolicy: "AlwaysAllow" }),
      true,
    ],
  ])("that is not Ready %s", (_, one, goes) => {
    expect(budgetProblem([one])(pod.notReady().build()) === undefined).toBe(goes);
  });

  it("that does not run is kept by none", () => {
    expect(budgetProblem([budget("web")])(gpuPod("a").phase("Pending").build())).toBeUndefined();
  });
});
