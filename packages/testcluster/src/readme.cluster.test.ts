import { nodes, pods } from "@berth/kube";
import { aNode, aPod, eventually, startTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";

it("runs a pod on an arm64 node", async () => {
  await using cluster = await startTestCluster({
    with: ["scheduler", "controller-manager", "kwok"],
    audit: true,
  });
  const { client, audit } = cluster;

  await client.create(nodes, aNode("n1").arm64().fake().build());
  const mark = await audit.mark();
  await client.create(pods, aPod("p1").selecting({ "kubernetes.io/arch": "arm64" }).build());

  await eventually(async () => {
    const pod = await client.get(pods, { namespace: "default", name: "p1" });
    expect(pod.status?.phase).toBe("Running");
    expect(pod.spec?.nodeName).toBe("n1");
  });
  expect(await audit.countSince(mark, { verb: "create", resource: "pods", subresource: "binding" })).toBe(1);
});
