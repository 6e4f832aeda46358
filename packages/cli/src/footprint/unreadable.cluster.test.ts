/** Footprints of the cluster that may not be read are no footprints that were deleted. */

import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  namespaces,
  nodes,
  pods,
} from "@berth/kube";
import { nodeFootprints } from "@berth/placement";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { crds } from "../kinds.ts";
import { testFolder } from "../testing/harness.ts";

const NAMESPACE = "berth-system";
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(nodeFootprints));
  await client.create(namespaces, { metadata: { name: NAMESPACE } });
});

const ofFile = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: file}
spec:
  workloads: [{podSelector: {matchLabels: {app: a}}}]
  node: {label: {key: example.com/a}}
`;

describe("footprints of the cluster that may not be read any more", () => {
  it("keep their label, however long that lasts", async () => {
    const { client } = cluster;
    const namespace = "default";
    await using folder = await testFolder({ "berth.yaml": ofFile });
    const config = [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }];
    const options = { namespace: NAMESPACE, config };
    await client.create(nodes, aNode("n1").build());
    await client.create(pods, aPod("b").labelled({ app: "b" }).on("n1").build(), { namespace });
    await client.create(nodeFootprints, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "NodeFootprint",
      metadata: { name: "b" },
      spec: {
        workloads: [{ podSelector: { matchLabels: { app: "b" } } }],
        node: { label: { key: "example.com/b" } },
      },
    });
    const seen = async (): Promise<readonly string[]> => {
      const { metadata } = await client.get(nodes, { name: "n1" });
      return Object.keys(metadata?.labels ?? {}).filter((key) => key.startsWith("example.com/"));
    };
    {
      await using own = cluster.connect();
      await using _berth = await startBerth({ client: own, ...options });
      await eventually(async () => expect(await seen()).toEqual(["example.com/b"]));
    }
    const rbac = "rbac.authorization.k8s.io";
    const rules = [
      {
        apiGroups: [
          "",
          "apps",
          "admissionregistration.k8s.io",
          "events.k8s.io",
          "apiextensions.k8s.io",
          "batch",
        ],
        resources: ["*"],
        verbs: ["*"],
      },
    ];
    await client.create(clusterRoles, { metadata: { name: "half" }, rules });
    await client.create(clusterRoleBindings, {
      metadata: { name: "half" },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "half" },
      subjects: [{ apiGroup: rbac, kind: "User", name: "half" }],
    });
    await using half = cluster.connect({ user: await cluster.user("half") });
    await eventually(() => half.list(nodes));
    await using _berth = await startBerth({ client: half, ...options });
    // What the file wants is set once Berth goes on without the footprints of the cluster.
    await client.create(pods, aPod("a").labelled({ app: "a" }).on("n1").build(), { namespace });
    await eventually(async () => expect(await seen()).toContain("example.com/a"), { timeoutMs: 60_000 });
    expect(await seen()).toContain("example.com/b");
  });
});
