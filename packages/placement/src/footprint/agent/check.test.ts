import type { DaemonSet, Node, PodSpec, Taint } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { agentProblems, type CheckedFootprint, checkAgent } from "./check.ts";

const KEY = "ate.dev/atelet";
const footprint: CheckedFootprint = {
  label: { key: KEY, value: "true" },
  agent: { namespace: "ate-system", name: "atelet", nodeSelector: "Verify" },
};

/** Without a fault, unless one is given. */
function agent(spec: Partial<PodSpec> = {}, deletionTimestamp?: string): DaemonSet {
  return {
    metadata: { namespace: "ate-system", name: "atelet", ...(deletionTimestamp && { deletionTimestamp }) },
    spec: {
      selector: { matchLabels: { app: "atelet" } },
      template: {
        spec: {
          containers: [{ name: "atelet" }],
          nodeSelector: { [KEY]: "true" },
          priorityClassName: "system-node-critical",
          ...spec,
        },
      },
    },
  };
}

const node = (name: string, ...taints: readonly Taint[]): Node => ({
  ...aNode(name).build(),
  spec: { taints },
});
const microvm: Taint = { key: "ate.dev/sandboxClass", value: "microvm", effect: "NoSchedule" };

const messagesOf = (daemonSet: DaemonSet | null, ...nodes: readonly Node[]): readonly string[] =>
  checkAgent(footprint, daemonSet, nodes).unserved.map(({ message }) => message);

describe("an agent on the nodes that need it", () => {
  it("F-B8 is reported with the node and the taint that it does not tolerate", () => {
    const { unserved, problems } = checkAgent(footprint, agent(), [node("n1"), node("n2", microvm)]);
    expect(unserved).toEqual([
      {
        node: "n2",
        reason: "AgentUnschedulable",
        message:
          "the DaemonSet ate-system/atelet cannot run on the node n2: it does not tolerate the taint ate.dev/sandboxClass=microvm:NoSchedule",
      },
    ]);
    expect(problems).toEqual([]);
  });

  it("F-E16 runs beside the pods that tolerate a taint once it tolerates it as well", () => {
    const tolerations = [{ key: "ate.dev/sandboxClass", operator: "Exists" }];
    expect(messagesOf(agent({ tolerations }), node("n2", microvm))).toEqual([]);
    const another = [{ key: "ate.dev/sandboxClass", value: "gvisor", effect: "NoSchedule" }];
    expect(messagesOf(agent({ tolerations: another }), node("n2", microvm))).toHaveLength(1);
  });

  it("is asked for a node that has no label yet as if it stood there", () => {
    expect(messagesOf(agent(), node("n1"))).toEqual([]);
  });

  it("F-E19 runs on cordoned nodes, and on those that start or are in trouble just now", () => {
    const passing: readonly Taint[] = [
      { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" },
      { key: "node.kubernetes.io/not-ready", effect: "NoExecute" },
      { key: "node.cloudprovider.kubernetes.io/uninitialized", value: "true", effect: "NoSchedule" },
      { key: "startup.k8s.io/agents", effect: "NoSchedule" },
    ];
    expect(messagesOf(agent(), node("n1", ...passing))).toEqual([]);
    expect(messagesOf(agent(), node("n1", { key: "soft", effect: "PreferNoSchedule" }))).toEqual([]);
  });

  it.each<[string, Partial<PodSpec>]>([
    [
      "it asks for pool=blue, which the node does not have",
      { nodeSelector: { [KEY]: "true", pool: "blue" } },
    ],
    [
      "its required node affinity does not match",
      {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: [{ key: "pool", operator: "Exists" }] }],
            },
          },
        },
      },
    ],
    ["it is for the node n9", { nodeName: "n9" }],
  ])("is reported with what keeps it away: %s", (why, spec) => {
    expect(messagesOf(agent(spec), node("n1"))).toEqual([
      `the DaemonSet ate-system/atelet cannot run on the node n1: ${why}`,
    ]);
  });

  it("that asks for another label is told from which one this footprint sets", () => {
    const other = agent({ nodeSelector: { "ate.dev/Atelet": "true" } });
    expect(messagesOf(other, node("n1"))).toEqual([
      "the DaemonSet ate-system/atelet cannot run on the node n1: it asks for ate.dev/Atelet=true, which the node does not have; this footprint sets ate.dev/atelet=true",
    ]);
  });

  it("is missing on every one of them without its DaemonSet, or while that is being deleted", () => {
    for (const daemonSet of [null, agent({}, "2026-01-01T00:00:00Z")]) {
      const { unserved, problems } = checkAgent(footprint, daemonSet, [node("n1"), node("n2")]);
      expect(unserved.map(({ node: name, reason }) => [name, reason])).toEqual([
        ["n1", "DaemonSetMissing"],
        ["n2", "DaemonSetMissing"],
      ]);
      expect(problems.map(({ reason }) => reason)).toEqual(["DaemonSetMissing"]);
    }
  });
});

describe("an agent's DaemonSet", () => {
  const reasonsOf = (spec: Partial<PodSpec>): readonly string[] =>
    agentProblems(footprint, agent(spec)).map(({ reason }) => reason);

  it("is warned of when it does not ask for the label, and so runs everywhere", () => {
    expect(reasonsOf({ nodeSelector: {} })).toEqual(["AgentEverywhere"]);
  });

  it("is warned of without a system priority class, which autoscalers count and full nodes make room for", () => {
    expect(reasonsOf({ priorityClassName: "high" })).toEqual(["AgentPriority"]);
    expect(reasonsOf({ priorityClassName: "system-cluster-critical" })).toEqual([]);
    expect(reasonsOf({ priorityClassName: "", nodeSelector: {} })).toEqual([
      "AgentEverywhere",
      "AgentPriority",
    ]);
  });
});
