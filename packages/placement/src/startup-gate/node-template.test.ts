import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { gatesOfNewNodes, type NodePool, nodeTemplate, unexpectedGates } from "./node-template.ts";
import { gateList } from "./testing/gate-list.ts";

const list = gateList({
  all: { taint: { key: "example.com/all" } },
  gpu: { taint: { key: "example.com/gpu" }, nodeSelector: { matchLabels: { pool: "gpu" } } },
});
const taint = (name: string) => ({ key: `example.com/${name}`, value: "wait", effect: "NoSchedule" });
const labels = { "example.com/camera": "true" };

describe("a template of nodes", () => {
  it("needs nothing without gates and labels", () => {
    for (const kind of ["karpenter", "cluster-api", "node-group"] as const)
      expect(nodeTemplate(kind, { gates: [] }, {})).toEqual([]);
  });

  it("of Karpenter has startup taints and labels", () => {
    const template = { metadata: { labels }, spec: { startupTaints: [taint("all"), taint("gpu")] } };
    expect(nodeTemplate("karpenter", list, labels).map(({ document }) => document)).toEqual([
      { spec: { template } },
    ]);
    expect(nodeTemplate("karpenter", { gates: [] }, labels)[0]?.document).toEqual({
      spec: { template: { metadata: { labels } } },
    });
  });

  it("of Cluster API registers with the taints, and tells cluster-autoscaler the labels", () => {
    const taints = [taint("all"), taint("gpu")];
    const [registration, known, flags] = nodeTemplate("cluster-api", list, labels);
    expect(registration?.document).toEqual({
      spec: { template: { spec: { joinConfiguration: { nodeRegistration: { taints } } } } },
    });
    expect(known?.document).toEqual({
      metadata: {
        annotations: { "capacity.cluster-autoscaler.kubernetes.io/labels": "example.com/camera=true" },
      },
    });
    expect(flags?.comments).toContain("  --startup-taint=example.com/gpu");
  });

  it("of a node group does it with the kubelet and tags", () => {
    const [registration, known] = nodeTemplate("node-group", list, labels);
    expect(registration?.document).toMatchObject({ registerWithTaints: [taint("all"), taint("gpu")] });
    expect(known?.document).toEqual({
      "k8s.io/cluster-autoscaler/node-template/label/example.com/camera": "true",
    });
  });
});

it("gates of new nodes are those that select a node like it, and hold it at its creation", () => {
  const names = (labelled: Readonly<Record<string, string>>) =>
    gatesOfNewNodes(list, aNode("n").labelled(labelled).build()).map(({ name }) => name);
  expect(names({ pool: "gpu" })).toEqual(["all", "gpu"]);
  expect(names({ pool: "web" })).toEqual(["all"]);
  expect(names({ "node-role.kubernetes.io/control-plane": "" })).toEqual([]);
  expect(gatesOfNewNodes(list, undefined)).toHaveLength(2);
});

describe("a NodePool", () => {
  type Template = NonNullable<NonNullable<NodePool["spec"]>["template"]>;
  const lacks = (template: Template): readonly string[] =>
    unexpectedGates({ metadata: { name: "a" }, spec: { template } }, list).map(({ name }) => name);
  const pool = { key: "pool", operator: "In", values: ["gpu"] };
  it.each<[string, Template, readonly string[]]>([
    ["without startup taints", {}, ["all"]],
    [
      "with one of another effect",
      { spec: { startupTaints: [{ ...taint("all"), effect: "NoExecute" }] } },
      ["all"],
    ],
    [
      "with the taint, whatever its value",
      { spec: { startupTaints: [{ ...taint("all"), value: "x" }] } },
      [],
    ],
    ["with the label of a gate", { metadata: { labels: { pool: "gpu" } } }, ["all", "gpu"]],
    ["that requires the label of a gate", { spec: { requirements: [pool] } }, ["all", "gpu"]],
    [
      "that requires one of several",
      { spec: { requirements: [{ ...pool, values: ["gpu", "web"] }] } },
      ["all"],
    ],
  ])("%s", (_, template, expected) => {
    expect(lacks(template)).toEqual(expected);
  });

  it("that a gate selects by its name", () => {
    const own = gateList({ g: { nodeSelector: { matchLabels: { "karpenter.sh/nodepool": "a" } } } });
    expect(unexpectedGates({ metadata: { name: "a" } }, own)).toHaveLength(1);
    expect(unexpectedGates({ metadata: { name: "b" } }, own)).toEqual([]);
  });

  it("is not asked for a taint that Karpenter knows by its prefix", () => {
    const known = gateList({ g: { taint: { key: "readiness.k8s.io/network" } } });
    expect(unexpectedGates({ metadata: { name: "a" } }, known)).toEqual([]);
  });
});
