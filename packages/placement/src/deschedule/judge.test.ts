import type { Node, NodeSelectorTerm, Pod } from "@berth/kube";
import { aNode, aPod, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { DO_NOT_DISRUPT, SAFE_TO_EVICT } from "../api/autoscaler.ts";
import { EVICT_ANNOTATION, PREFER_NO_EVICTION_ANNOTATION } from "./document.ts";
import { type JudgeObservations, judge } from "./judge.ts";
import { aPolicy, GPU, gpuPod, observations } from "./testing/lost.ts";

const bare = aNode("n1").build();
const gpuNode = aNode("n1")
  .labelled({ [GPU]: "true" })
  .build();

function stateOf(
  pod: PodBuilder,
  node: Node | undefined,
  spec: object = {},
  more: Partial<JudgeObservations> = {},
) {
  const { state, ...why } = judge(pod.build(), node, aPolicy(spec), { ...observations, ...more });
  return "reason" in why ? `${state} ${why.reason}` : state;
}
const withAffinity = (...nodeSelectorTerms: NodeSelectorTerm[]): PodBuilder =>
  aPod("a")
    .ownedBy("ReplicaSet", "web")
    .on("n1")
    .with((pod) => ({
      ...pod,
      spec: {
        containers: [],
        ...pod.spec,
        affinity: {
          nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
        },
      },
    }));
const asking = (operator: string, ...values: string[]): PodBuilder =>
  withAffinity({ matchExpressions: [{ key: GPU, operator, ...(values.length > 0 && { values }) }] });
const withSpec = (spec: Partial<Pod["spec"]>): PodBuilder =>
  gpuPod("a").with((pod) => ({ ...pod, spec: { containers: [], ...pod.spec, ...spec } }));
const going = (taint: string): Node => aNode("n1").tainted(taint).build();
const noOwner = aPod("a")
  .selecting({ [GPU]: "true" })
  .on("n1");

describe("a pod that asks for a label", () => {
  it("D-A1 is lost while its node lacks the label, and fits while the node has it", () => {
    expect(judge(gpuPod("a").build(), bare, aPolicy(), observations)).toEqual({
      state: "lost",
      message: "it asks for example.com/gpu=true, and its node has no such label",
    });
    expect(stateOf(gpuPod("a"), gpuNode)).toBe("fits");
    const other = aNode("n1")
      .labelled({ [GPU]: "no" })
      .build();
    expect(judge(gpuPod("a").build(), other, aPolicy(), observations)).toMatchObject({
      message: "it asks for example.com/gpu=true, and its node has example.com/gpu=no",
    });
  });

  it.each<[string, PodBuilder, string, string | undefined]>([
    ["D-A2 Exists, with the label", asking("Exists"), "fits", "1"],
    ["D-A3 Exists, without it", asking("Exists"), "lost", undefined],
    ["D-A4 In, with another value", asking("In", "1", "2"), "lost", "3"],
    ["D-A5 NotIn, with one of the values", asking("NotIn", "1"), "lost", "1"],
    ["D-A6 NotIn, without the label", asking("NotIn", "1"), "fits", undefined],
    ["D-A7 DoesNotExist, with the label", asking("DoesNotExist"), "lost", "1"],
    ["D-A8 DoesNotExist, without it", asking("DoesNotExist"), "fits", undefined],
    ["D-A9 Gt, with a larger number", asking("Gt", "4"), "fits", "5"],
    ["D-A10 Gt, with the same number", asking("Gt", "4"), "lost", "4"],
    ["D-A11 Lt, with a larger number", asking("Lt", "4"), "lost", "5"],
    ["D-A12 Lt, with a value that is no number", asking("Lt", "4"), "lost", "few"],
  ])("%s", (_, pod, expected, value) => {
    const node = aNode("n1").labelled(value === undefined ? {} : { [GPU]: value });
    expect(stateOf(pod, node.build())).toBe(expected);
  });

  it("D-A13 fits where one of several terms holds, and is lost where none does", () => {
    const exists = (key: string): NodeSelectorTerm => ({ matchExpressions: [{ key, operator: "Exists" }] });
    const pod = withAffinity(exists(GPU), exists("example.com/npu"));
    expect(stateOf(pod, gpuNode)).toBe("fits");
    expect(stateOf(pod, aNode("n1").labelled({ "example.com/npu": "" }).build())).toBe("fits");
    expect(stateOf(pod, bare)).toBe("lost");
  });

  it("D-A14 is not lost because of a field of the node, which no label changes", () => {
    const matchFields = [{ key: "metadata.name", operator: "In", values: ["n2"] }];
    const matchExpressions = [{ key: GPU, operator: "Exists" }];
    expect(stateOf(withAffinity({ matchFields }), bare)).toBe("outside");
    expect(stateOf(withAffinity({ matchFields, matchExpressions }), gpuNode)).toBe("fits");
  });
});

describe("the scope of a policy", () => {
  const zoned = gpuPod("a").selecting({ zone: "a" });
  it.each<[string, object, string]>([
    ["D-A15 the default is the keys that rules write", {}, "fits"],
    ["D-A16 a list names others", { keys: ["zone"] }, "lost"],
    ["D-A17 a list may have no key of the pod", { keys: ["disk"] }, "outside"],
    ["D-A18 * is each key", { keys: ["*"], everything: true }, "lost"],
    ["D-A19 an empty list is no key", { keys: [] }, "outside"],
    ["D-A20 of other pods", { podSelector: { matchLabels: { app: "db" } } }, "outside"],
    ["D-A21 of other namespaces", { namespaceSelector: { matchLabels: { team: "a" } } }, "outside"],
  ])("%s", (_, spec, expected) => {
    expect(stateOf(zoned, gpuNode, spec)).toBe(expected);
  });

  it.each<[string, object, string, string]>([
    ["D-A22 a taint that is not named", {}, "arch=arm64:NoSchedule", "fits"],
    ["D-A23 a taint that is named", { taints: ["arch"] }, "arch=arm64:NoSchedule", "lost"],
    ["D-A24 each taint", { taints: ["*"] }, "arch=arm64:NoSchedule", "lost"],
    ["D-A25 another effect", { taints: ["arch"] }, "arch=arm64:PreferNoSchedule", "fits"],
    ["D-A26 a taint that the pod tolerates", { taints: ["*"] }, "mine:NoSchedule", "fits"],
  ])("%s", (_, spec, taint, expected) => {
    const pod = gpuPod("a").tolerating({ key: "mine", operator: "Exists" });
    const node = aNode("n1")
      .labelled({ [GPU]: "true" })
      .tainted(taint)
      .build();
    expect(stateOf(pod, node, spec)).toBe(expected);
  });

  it("D-A27 is about a pod that asks for nothing, where the policy names taints", () => {
    const pod = aPod("a").ownedBy("ReplicaSet", "web").on("n1");
    const tainted = aNode("n1").tainted("arch=arm64:NoSchedule").build();
    expect(judge(pod.build(), tainted, aPolicy({ taints: ["arch"] }), observations)).toEqual({
      state: "lost",
      message: "it does not tolerate the taint arch=arm64:NoSchedule of its node",
    });
    expect(stateOf(pod, tainted, { taints: ["arch"] }, { derivedKeys: () => undefined })).toBe("lost");
    expect(stateOf(pod, tainted, { taints: ["arch"] }, { namespaceLabels: () => undefined })).toBe("unknown");
    expect(stateOf(pod, tainted)).toBe("outside");
  });
});

describe("what Berth does not know", () => {
  it.each<[string, Node | undefined, Partial<JudgeObservations>, string]>([
    ["D-A28 the node", undefined, {}, "unknown"],
    ["D-A29 the labels of the namespace", bare, { namespaceLabels: () => undefined }, "unknown"],
    ["D-A30 a namespace that is not there has no labels", bare, { namespaceLabels: () => null }, "lost"],
    ["D-A31 the keys of rules", bare, { derivedKeys: () => undefined }, "unknown"],
    ["D-A32 a label that Berth is about to write", bare, { isUnsettled: () => true }, "unknown"],
    ["D-A33 a label that stands may be unsettled", gpuNode, { isUnsettled: () => true }, "fits"],
    [
      "D-A34 a node that is being deleted",
      aNode("n1").stored({ deletionTimestamp: "2026-01-01T00:00:00Z" }).build(),
      {},
      "unknown",
    ],
    ["D-A92 a node that Karpenter removes", going("karpenter.sh/disrupted:NoSchedule"), {}, "unknown"],
    [
      "D-A93 that cluster-autoscaler removes",
      going("ToBeDeletedByClusterAutoscaler=1:NoSchedule"),
      {},
      "unknown",
    ],
    [
      "D-A94 that it may remove",
      going("DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule"),
      {},
      "lost",
    ],
  ])("%s", (_, node, more, expected) => {
    expect(stateOf(gpuPod("a"), node, {}, more)).toBe(expected);
  });
});

describe("a threshold of priorities", () => {
  const classes = { priorityOf: (name: string) => (name === "high" ? 1_000 : null) };
  const unread = { priorityOf: () => undefined };
  const high = { priorityThreshold: { name: "high" } };
  const annotated = withSpec({ priority: 1_000 }).annotated({ [EVICT_ANNOTATION]: "" });
  it.each<[string, PodBuilder, object, Partial<JudgeObservations>, string]>([
    [
      "D-A79 the value",
      withSpec({ priority: 10 }),
      { priorityThreshold: { value: 10 } },
      {},
      "stays PodProtected",
    ],
    ["D-A80 below the value", withSpec({ priority: 9 }), { priorityThreshold: { value: 10 } }, {}, "lost"],
    ["D-A81 no priority is 0", gpuPod("a"), { priorityThreshold: { value: 0 } }, {}, "stays PodProtected"],
    ["D-A82 the value of a class", withSpec({ priority: 1_000 }), high, classes, "stays PodProtected"],
    ["D-A83 below the value of a class", withSpec({ priority: 999 }), high, classes, "lost"],
    ["D-A84 with the annotation", annotated, high, classes, "lost"],
    [
      "D-A85 a class that does not exist",
      gpuPod("a"),
      { priorityThreshold: { name: "x" } },
      classes,
      "stays PodProtected",
    ],
    ["D-A86 classes that are not read yet", gpuPod("a"), high, unread, "unknown"],
  ])("%s", (_, pod, spec, more, expected) => {
    expect(stateOf(pod, bare, spec, more)).toBe(expected);
  });
});

describe("pods that stay", () => {
  const ignore = { namespaceLabels: () => ({ "berth.dev/deschedule": "ignore" }) };
  const hostPath = withSpec({ volumes: [{ name: "v", hostPath: { path: "/data" } }] });
  it.each<[string, PodBuilder, string, object?, Partial<JudgeObservations>?]>([
    ["D-A35 not bound", aPod("a").selecting({ [GPU]: "true" }), "outside"],
    ["D-A36 ended well", gpuPod("a").phase("Succeeded"), "outside"],
    ["D-A37 ended badly", gpuPod("a").phase("Failed"), "outside"],
    ["D-A38 being deleted", gpuPod("a").stored({ deletionTimestamp: "2026-01-01T00:00:00Z" }), "outside"],
    ["D-A39 a mirror pod", gpuPod("a").annotated({ "kubernetes.io/config.mirror": "x" }), "outside"],
    [
      "D-A40 opted out by an annotation",
      gpuPod("a").annotated({ "berth.dev/deschedule": "ignore" }),
      "stays EvictionOptedOut",
    ],
    [
      "D-A41 another value opts out of nothing",
      gpuPod("a").annotated({ "berth.dev/deschedule": "" }),
      "lost",
    ],
    ["D-A42 opted out by the namespace", gpuPod("a"), "stays EvictionOptedOut", {}, ignore],
    [
      "D-A43 opted out for each descheduler",
      gpuPod("a").annotated({ [PREFER_NO_EVICTION_ANNOTATION]: "" }),
      "stays EvictionOptedOut",
    ],
    [
      "D-A87 not for Karpenter",
      gpuPod("a").annotated({ [DO_NOT_DISRUPT]: "true" }),
      "stays EvictionOptedOut",
    ],
    [
      "D-A88 a value that Karpenter does not read",
      gpuPod("a").annotated({ [DO_NOT_DISRUPT]: "True" }),
      "lost",
    ],
    [
      "D-A89 not for cluster-autoscaler",
      gpuPod("a").annotated({ [SAFE_TO_EVICT]: "false" }),
      "stays EvictionOptedOut",
    ],
    ["D-A90 a value that it does not read", gpuPod("a").annotated({ [SAFE_TO_EVICT]: "no" }), "lost"],
    [
      "D-A91 safe for cluster-autoscaler, but without a controller",
      noOwner.annotated({ [SAFE_TO_EVICT]: "true" }),
      "stays PodProtected",
    ],
    ["D-A97 of a Job", gpuPod("a").ownedBy("Job", "batch"), "lost"],
    ["D-A44 without a controller", noOwner, "stays PodProtected"],
    ["D-A45 without a controller, included", noOwner, "lost", { include: ["Bare"] }],
    ["D-A46 without a controller, annotated", noOwner.annotated({ [EVICT_ANNOTATION]: "" }), "lost"],
    [
      "D-A47 an annotation that evicts wins over no namespace",
      noOwner.annotated({ [EVICT_ANNOTATION]: "" }),
      "stays EvictionOptedOut",
      {},
      ignore,
    ],
    ["D-A48 of a DaemonSet", gpuPod("a").ofDaemonSet("d"), "stays PodProtected"],
    ["D-A49 of a DaemonSet, included", gpuPod("a").ofDaemonSet("d"), "lost", { include: ["DaemonSet"] }],
    [
      "D-A50 system-critical by class",
      gpuPod("a").priorityClass("system-node-critical"),
      "stays PodProtected",
    ],
    ["D-A51 system-critical by priority", withSpec({ priority: 2_000_000_000 }), "stays PodProtected"],
    ["D-A52 below that", withSpec({ priority: 1_999_999_999 }), "lost"],
    ["D-A53 with an emptyDir", withSpec({ volumes: [{ name: "v", emptyDir: {} }] }), "stays PodProtected"],
    ["D-A54 with a hostPath", hostPath, "stays PodProtected", { include: ["Bare"] }],
    ["D-A55 with a hostPath, included", hostPath, "lost", { include: ["LocalStorage"] }],
    ["D-A56 with a ConfigMap", withSpec({ volumes: [{ name: "v", configMap: {} }] }), "lost"],
  ])("%s", (_, pod, expected, spec = {}, more = {}) => {
    expect(stateOf(pod, bare, spec, more)).toBe(expected);
  });
});
