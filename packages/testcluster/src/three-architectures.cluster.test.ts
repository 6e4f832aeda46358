import { nodes, pods } from "@berth/kube";
import { expect, it } from "vitest";
import { eventually } from "./eventually.ts";
import { aNode, type NodeBuilder } from "./node-builder.ts";
import { aPod } from "./pod-builder.ts";
import { sharedTestCluster } from "./shared.ts";

const ARCHITECTURES: readonly [string, NodeBuilder][] = [
  ["amd64", aNode("three-amd64").amd64()],
  ["arm64", aNode("three-arm64").arm64()],
  ["s390x", aNode("three-s390x").architecture("s390x")],
];

/** For what takes three programs several steps, each as soon as it gets to it. */
const CONTROLLERS = { timeoutMs: 60_000 };

it("runs a pod on a node of each architecture, found by its label", async () => {
  const { client } = await sharedTestCluster({ with: ["scheduler", "controller-manager", "kwok"] });
  for (const [architecture, node] of ARCHITECTURES) {
    await client.create(nodes, node.fake().build());
    const pod = aPod(`on-${architecture}`).selecting({ "kubernetes.io/arch": architecture });
    await client.create(pods, pod.build());
  }
  for (const [architecture] of ARCHITECTURES) {
    const name = `three-${architecture}`;
    await eventually(async () => {
      const pod = await client.get(pods, { namespace: "default", name: `on-${architecture}` });
      expect(pod.status?.phase).toBe("Running");
      expect(pod.spec?.nodeName).toBe(name);
    }, CONTROLLERS);
    const node = await client.get(nodes, { name });
    expect(node.status?.nodeInfo?.architecture).toBe(architecture);
    expect(node.status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("True");
    expect(node.metadata?.labels?.["kubernetes.io/arch"]).toBe(architecture);
    expect(node.spec?.taints ?? []).toEqual([]);
  }
});
