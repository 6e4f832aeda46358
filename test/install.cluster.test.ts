/** Where the replicas of a printed installation come to run, on nodes that kwok plays. */
import { deepStrictEqual } from "node:assert";
import {
  deployments,
  type KubeObject,
  namespaces,
  nodes,
  type Pod,
  pods,
  serviceAccounts,
  type Taint,
} from "@berth/kube";
import { aNode, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, expect, it } from "vitest";
import { runCommand } from "./command.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";

const NAMESPACE = "berth-installed";
const NAME = { namespace: NAMESPACE, name: "berth" };
const ZONE = "topology.kubernetes.io/zone";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedFullCluster();
});

afterEach(async () => {
  await cluster.client.delete(deployments, NAME);
  await patiently(async () => deepStrictEqual(await ours(), []));
  for (const { metadata } of (await cluster.client.list(nodes)).items)
    await cluster.client.delete(nodes, { name: metadata?.name ?? "" });
});

const ours = async (): Promise<readonly Pod[]> =>
  (await cluster.client.list(pods, { namespace: NAMESPACE })).items;

async function addNodes(zones: readonly (string | undefined)[]): Promise<void> {
  for (const [at, zone] of zones.entries()) {
    const node = aNode(`host-${at}`).fake();
    await cluster.client.create(nodes, (zone === undefined ? node : node.labelled({ [ZONE]: zone })).build());
  }
}

/** From the documents of `berth manifests`: what the pods need. */
async function install(): Promise<void> {
  const printed = await runCommand("manifests", "--image", "x/y:1", "--namespace", NAMESPACE, "-o", "json");
  const { items } = JSON.parse(printed) as { readonly items: readonly KubeObject[] };
  const one = (kind: string) => items.find((it) => it.kind === kind) ?? {};
  await cluster.client.apply(namespaces, one("Namespace"));
  await cluster.client.apply(serviceAccounts, one("ServiceAccount"));
  await cluster.client.create(deployments, one("Deployment"));
}

/** The hosts of two ready replicas of this template, once there are no other pods. */
async function settled(): Promise<readonly string[]> {
  return patiently(async () => {
    const { status, metadata, spec } = await cluster.client.get(deployments, NAME);
    expect(status).toMatchObject({ observedGeneration: metadata?.generation, readyReplicas: 2 });
    expect(status?.updatedReplicas).toBe(spec?.replicas);
    const all = await ours();
    expect(all).toHaveLength(2);
    return all.map((pod) => pod.spec?.nodeName ?? "").toSorted();
  });
}

async function roll(): Promise<void> {
  const now = await cluster.client.get(deployments, NAME);
  const body = {
    spec: { template: { metadata: { annotations: { rolled: `${now.metadata?.generation}` } } } },
  };
  await cluster.client.patch(deployments, NAME, { type: "merge", body });
}

it.each<[string, readonly (string | undefined)[]]>([
  ["two nodes without zones", [undefined, undefined]],
  ["two nodes of one zone", ["a", "a"]],
  ["three nodes of three zones", ["a", "b", "c"]],
])("replicas are on two hosts after three starts and a roll on %s", async (_, zones) => {
  await addNodes(zones);
  await install();
  expect(new Set(await settled()).size).toBe(2);
  for (let start = 0; start < 3; start++) {
    for (const { metadata } of await ours())
      await cluster.client.delete(pods, { namespace: NAMESPACE, name: metadata?.name ?? "" });
    await patiently(async () =>
      expect((await ours()).filter(({ metadata }) => metadata?.deletionTimestamp)).toEqual([]),
    );
    expect(new Set(await settled()).size).toBe(2);
  }
  await roll();
  expect(new Set(await settled()).size).toBe(2);
});

it.each<[string, readonly Taint[]]>([
  ["a single node", []],
  ["a single node that takes them", [{ key: "example.com/repair", effect: "NoExecute" }]],
])("both replicas run on %s, and a roll ends there", async (_, taintsOfOther) => {
  await addNodes([undefined]);
  if (taintsOfOther.length > 0)
    await cluster.client.create(
      nodes,
      aNode("other")
        .fake()
        .tainted(...taintsOfOther)
        .build(),
    );
  await install();
  expect(await settled()).toEqual(["host-0", "host-0"]);
  await roll();
  expect(await settled()).toEqual(["host-0", "host-0"]);
});

it("replicas run on nodes that are fresh, cordoned or held by a gate", async () => {
  const effects = ["NoSchedule", "NoExecute"];
  for (const [at, effect] of effects.entries()) {
    const taints = [
      { key: "startup.k8s.io/initializing", value: "wait", effect },
      { key: "node.cloudprovider.kubernetes.io/uninitialized", effect: "NoSchedule" },
    ];
    const node = taints.reduce((it, taint) => it.tainted(taint), aNode(`host-${at}`).fake()).build();
    await cluster.client.create(nodes, { ...node, spec: { ...node.spec, unschedulable: true } });
  }
  await install();
  expect(await settled()).toEqual(["host-0", "host-1"]);
});
