import type { DaemonSet, NodeSelectorTerm, PodSpec, Taint, Toleration } from "@berth/kube";
import { aNode, type NodeBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { expectation } from "./daemonset-placement.ts";

const gateTaint: Taint = { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" };
const otherGate: Taint = { key: "example.com/network", value: "wait", effect: "NoExecute" };
const otherValue: Taint = { ...gateTaint, value: "x" };
const lasting: Taint = { key: "team", effect: "NoSchedule" };
const gateTaints = [gateTaint, otherGate];

const node = aNode("n1")
  .labelled({ disk: "ssd", gpus: "8" })
  .stored({ creationTimestamp: "2026-01-01T00:00:00Z" });

const template = (spec: Partial<PodSpec>, uid = "ds-1"): DaemonSet => ({
  metadata: { name: "cni", namespace: "kube-system", uid },
  spec: { selector: { matchLabels: { app: "cni" } }, template: { spec: { containers: [], ...spec } } },
});
const required = (...nodeSelectorTerms: NodeSelectorTerm[]): Partial<PodSpec> => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
});
const affinity = (key: string, operator: string, value: string): Partial<PodSpec> =>
  required({ matchExpressions: [{ key, operator, values: [value] }] });

const expected = { state: "expected" };
const not = (why: string) => ({ state: "notExpected", why });
const untolerated = (taint: string) => not(`it does not tolerate the taint ${taint}`);
const tainted = (taint: string): NodeBuilder => node.tainted(taint);
const tolerates = (toleration: Toleration): Partial<PodSpec> => ({ tolerations: [toleration] });
const toleratesTeam = tolerates({ key: "team", operator: "Exists" });
const blockedBy = (taint: Taint) => ({ state: "blocked", taint });
const KUBERNETES = "node.kubernetes.io";
const affinityFails = not("its required node affinity does not match");

describe("whether a DaemonSet is expected on a node", () => {
  it.each<[string, Partial<PodSpec>, NodeBuilder, unknown]>([
    ["nothing is asked", {}, node, expected],
    ["the node is named", { nodeName: "n1" }, node, expected],
    ["another node is named", { nodeName: "n2" }, node, not("it is for the node n2")],
    ["the node selector matches", { nodeSelector: { disk: "ssd" } }, node, expected],
    [
      "the node selector does not",
      { nodeSelector: { disk: "hdd" } },
      node,
      not("it asks for disk=hdd, which the node does not have"),
    ],
    ["the affinity matches", affinity("gpus", "Gt", "4"), node, expected],
    ["the affinity does not", affinity("gpus", "Lt", "4"), node, affinityFails],
    ["the affinity has no terms", required(), node, affinityFails],
    [
      "a taint of another is not tolerated",
      {},
      tainted("team=a:NoSchedule"),
      untolerated("team=a:NoSchedule"),
    ],
    ["one that evicts is not tolerated", {}, tainted("team:NoExecute"), untolerated("team:NoExecute")],
    ["a taint is tolerated", toleratesTeam, tainted("team=a:NoSchedule"), expected],
    ["a taint is a preference", {}, tainted("team=a:PreferNoSchedule"), expected],
    ["the node is cordoned", {}, tainted(`${KUBERNETES}/unschedulable:NoSchedule`).unschedulable(), expected],
    [
      "a key only begins like a temporary one",
      {},
      tainted(`${KUBERNETES}:NoSchedule`),
      untolerated(`${KUBERNETES}:NoSchedule`),
    ],
  ])("%s", (_, spec, builder, is) => {
    expect(expectation(template(spec), builder.build(), gateTaints)).toEqual(is);
  });

  it.each([
    "node.kubernetes.io/not-ready:NoSchedule",
    "node.kubernetes.io/network-unavailable:NoSchedule",
    "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
    "readiness.k8s.io/network:NoSchedule",
    "startup.k8s.io/other:NoExecute",
    "startup-taint.cluster-autoscaler.kubernetes.io/x:NoSchedule",
    "ignore-taint.cluster-autoscaler.kubernetes.io/x:NoSchedule",
    "node.cilium.io/agent-not-ready:NoExecute",
    "karpenter.sh/unregistered:NoExecute",
    "karpenter.sh/disrupted:NoSchedule",
    "ToBeDeletedByClusterAutoscaler=1:NoSchedule",
  ])("the taint %s only makes its pod late", (taint) => {
    expect(expectation(template({}), node.tainted(taint).build(), gateTaints)).toEqual(expected);
  });

  it.each<[string, Partial<PodSpec>, readonly Taint[], unknown]>([
    ["it does not tolerate the gate", {}, [gateTaint], blockedBy(gateTaint)],
    ["it does not tolerate another gate", {}, [otherGate], blockedBy(otherGate)],
    ["the taint has another value", {}, [otherValue], blockedBy(otherValue)],
    ["it tolerates the gate", tolerates({ key: gateTaint.key, operator: "Exists" }), [gateTaint], expected],
    [
      "it tolerates another value",
      tolerates({ key: gateTaint.key, value: "x" }),
      [gateTaint],
      blockedBy(gateTaint),
    ],
    ["it tolerates everything", tolerates({ operator: "Exists" }), gateTaints, expected],
    ["it is not meant for the node at all", { nodeName: "n2" }, [gateTaint], not("it is for the node n2")],
    ["a lasting taint keeps it away as well", {}, [gateTaint, lasting], untolerated("team:NoSchedule")],
    ["the gate does not hold the node", {}, [], expected],
  ])("behind a gate: %s", (_, spec, taints, is) => {
    expect(expectation(template(spec), node.tainted(...taints).build(), gateTaints)).toEqual(is);
  });
});
