import { clusterRoleBindings, clusterRoles, isApiError, nodes, pods } from "@berth/kube";
import { aNode, aPod, eventually, startTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";

it("labels nodes as a user who may do nothing else, and places a pod by the label", async () => {
  await using cluster = await startTestCluster({
    with: ["scheduler", "controller-manager", "kwok"],
    audit: true,
  });
  const { client, audit } = cluster;
  await client.create(nodes, aNode("n1").arm64().fake().build());

  const metadata = { name: "labeller" };
  const rules = [{ apiGroups: [""], resources: ["nodes"], verbs: ["get", "patch"] }];
  await client.create(clusterRoles, { metadata, rules });
  await client.create(clusterRoleBindings, {
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", ...metadata },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", ...metadata }],
  });
  await using labeller = cluster.connect({ user: await cluster.user("labeller"), userAgent: "labeller/1" });

  const mark = await audit.mark();
  const body = { metadata: { labels: { "example.com/disk": "fast" } } };
  await eventually(() => labeller.patch(nodes, { name: "n1" }, { type: "merge", body }));
  const error = await labeller.delete(nodes, { name: "n1" }).catch((reason: unknown) => reason);
  expect(isApiError(error, "forbidden")).toBe(true);

  await client.create(pods, aPod("p1").selecting({ "example.com/disk": "fast" }).build());
  await eventually(async () => {
    const pod = await client.get(pods, { namespace: "default", name: "p1" });
    expect(pod.status?.phase).toBe("Running");
    expect(pod.spec?.nodeName).toBe("n1");
  });
  expect(await audit.countSince(mark, { user: "labeller", verb: "patch", code: 200 })).toBe(1);
  expect(await audit.countSince(mark, { verb: "create", resource: "pods", subresource: "binding" })).toBe(1);
}, 60_000);
