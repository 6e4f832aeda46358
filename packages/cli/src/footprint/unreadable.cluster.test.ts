/** Footprints of the cluster that may not be read are no footprints that were deleted. */
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  type Deployment,
  deployments,
  namespaces,
  nodes,
  pods,
} from "@berth/kube";
import { crds, nodeFootprints } from "@berth/placement";
import {
  aNode,
  aPod,
  eventually,
  findFreePort,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { admissionServerSpec } from "../config/admission-server.ts";
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
  wait: {inject: ServerSideApply, port: 9, container: {name: wait-a, image: "registry.test/wait:1"}}
`;

const waitB = (inject: string): object => ({
  inject,
  port: 9,
  container: { name: `wait-${inject.toLowerCase()}`, image: "registry.test/wait:1" },
});

function aDeployment(name: string, app = name): Deployment {
  const labels = { app };
  const containers = [{ name: "main", image: "registry.test/app:1" }];
  return {
    metadata: { name },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  };
}

async function waitsOf(name: string): Promise<readonly string[]> {
  const { spec } = await cluster.client.get(deployments, { namespace: "default", name });
  return spec?.template.spec?.initContainers?.map((it) => it.name) ?? [];
}

describe("footprints of the cluster that may not be read any more", () => {
  it("keep label and wait, however long that lasts", async () => {
    const { client } = cluster;
    const namespace = "default";
    await using folder = await testFolder({ "berth.yaml": ofFile });
    const config = [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }];
    const port = await findFreePort();
    const spec = admissionServerSpec.parse({
      bindAddress: `127.0.0.1:${port}`,
      url: `https://127.0.0.1:${port}`,
    });
    const options = { namespace: NAMESPACE, admission: { spec, namespace: NAMESPACE }, config };
    await client.create(nodes, aNode("n1").build());
    await client.create(pods, aPod("b").labelled({ app: "b" }).on("n1").build(), { namespace });
    await client.create(deployments, aDeployment("b"), { namespace });
    for (const [name, app, inject] of [
      ["b", "b", "ServerSideApply"],
      ["c", "c", "Webhook"],
    ] as const)
      await client.create(nodeFootprints, {
        apiVersion: "berth.dev/v1alpha1",
        kind: "NodeFootprint",
        metadata: { name },
        spec: {
          workloads: [{ podSelector: { matchLabels: { app } } }],
          node: { label: { key: `example.com/${name}` } },
          wait: waitB(inject),
        },
      });
    const seen = async (): Promise<object> => {
      const { metadata } = await client.get(nodes, { name: "n1" });
      return { label: metadata?.labels?.["example.com/b"], wait: await waitsOf("b") };
    };
    const whole = { label: "true", wait: ["wait-serversideapply"] };
    {
      await using own = cluster.connect();
      await using _berth = await startBerth({ client: own, ...options });
      await eventually(async () => expect(await seen()).toEqual(whole));
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
    // What the file wants is put in once it is gone on without those of the cluster.
    await client.create(deployments, aDeployment("a"), { namespace });
    await eventually(async () => expect(await waitsOf("a")).toEqual(["wait-a"]), { timeoutMs: 60_000 });
    expect(await seen()).toEqual(whole);
    // Of what is decided then, too, nothing is taken off.
    await client.create(deployments, aDeployment("a2", "a"), { namespace });
    await eventually(async () => expect(await waitsOf("a2")).toEqual(["wait-a"]));
    expect(await seen()).toEqual(whole);
  });
});
