import { aNode, aPod, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { explainDescheduling } from "./explain.ts";
import type { FitResult } from "./fit.ts";
import { aPolicy, GPU, gpuPod, observations } from "./testing/lost.ts";

const bare = aNode("n1").build();
const gpuNode = aNode("n1")
  .labelled({ [GPU]: "true" })
  .build();
const explained = (
  pod: PodBuilder,
  node: typeof bare | undefined,
  spec: object = {},
  fit: FitResult = { node: "n9" },
  kept?: string,
) =>
  explainDescheduling(pod.build(), node, [aPolicy(spec)], {
    observations,
    fit: () => fit,
    budgetProblem: () => kept,
    replicasOf: () => 1,
  }).map(({ state, reason, message }) => `${state} ${reason ?? "-"}: ${message}`);
const zoned = gpuPod("a").selecting({ zone: "a" });
const LACKS = "it asks for example.com/gpu=true, and its node has no such label";

describe("what would evict a pod", () => {
  it.each<[string, readonly string[], string[]]>([
    ["D-F11 of no policy", explained(aPod("a").on("n1"), bare), []],
    ["that waits for its first node", explained(aPod("a").selecting({ [GPU]: "true" }), undefined), []],
    [
      "D-F12 that fits: only keys that rules write",
      explained(zoned, gpuNode),
      ["Fits -: Berth evicts it when its node no longer matches it in example.com/gpu for 5m"],
    ],
    [
      "D-F13 that fits: each key, and taints",
      explained(
        zoned,
        aNode("n1")
          .labelled({ [GPU]: "true", zone: "a" })
          .build(),
        { keys: ["*"], everything: true, taints: ["arch"] },
      ),
      [
        "Fits -: Berth evicts it when its node no longer matches it in example.com/gpu, zone, or its node gets a taint of arch that it does not tolerate for 5m",
      ],
    ],
    [
      "D-F14 that is lost",
      explained(gpuPod("a"), bare),
      [`Lost EvictionDelayed: ${LACKS}; Berth evicts it after 5m; node n9 is right for it`],
    ],
    [
      "D-F15 that is lost, and may go anywhere",
      explained(gpuPod("a"), bare, { requireFit: "False" }),
      [`Lost EvictionDelayed: ${LACKS}; Berth evicts it after 5m`],
    ],
    [
      "D-F16 that is lost, and has no other node",
      explained(gpuPod("a"), bare, {}, { reason: "NoOtherNode", message: "none" }),
      [`Lost NoOtherNode: ${LACKS}; none`],
    ],
    [
      "that is lost, and a budget keeps it",
      explained(gpuPod("a"), bare, {}, { node: "n9" }, "the budget web wants 2"),
      [`Lost DisruptionBudget: ${LACKS}; the budget web wants 2`],
    ],
    [
      "that is lost, and whose owner is too small",
      explained(gpuPod("a"), bare, { minReplicas: 2 }),
      [`Lost OwnerTooSmall: ${LACKS}; its owner has 1 pod, and the policy asks for 2`],
    ],
    ["D-F17 in a dry run", explained(gpuPod("a"), bare, { dryRun: true }), [`Lost DryRun: ${LACKS}`]],
    [
      "D-F18 that stays",
      explained(gpuPod("a").ofDaemonSet("d"), bare),
      ["Stays PodProtected: it belongs to a DaemonSet"],
    ],
    [
      "D-F19 whose node is unknown",
      explained(gpuPod("a"), undefined),
      ["Unknown -: Berth cannot tell now whether its node is right for it"],
    ],
  ])("%s", (_, said, expected) => {
    expect(said).toEqual(expected);
  });
});
