/** What a footprint says of itself where Berth lacks rights, on a real API server with RBAC. */
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  nodes,
  type PolicyRule,
  pods,
} from "@berth/kube";
import { crds, type NodeFootprint, nodeFootprints, workerPools } from "@berth/placement";
import { aNode, aPod, eventually, startTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "./composition.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startTestCluster();
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(nodeFootprints));
  await eventually(() => client.list(workerPools));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const USER = "footprints-without-pools";

async function grant(name: string, rule: PolicyRule): Promise<void> {
  const { client } = cluster;
  await client.create(clusterRoles, { metadata: { name }, rules: [rule] });
  await client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: USER }],
  });
}

async function statusOf(): Promise<NonNullable<NodeFootprint["status"]>> {
  return (await cluster.client.get(nodeFootprints, { name: "atelet" })).status ?? {};
}

async function conditionOf(type: string): Promise<unknown> {
  return (await statusOf()).conditions?.find((it) => it.type === type);
}

const text = (pattern: RegExp): unknown => expect.stringMatching(pattern);

describe("a footprint whose owners may not be read", () => {
  it("says which right is missing, and not that nothing is pending; the process stays ready", async () => {
    const { client } = cluster;
    const all = { resources: ["*"], verbs: ["*"] };
    await grant("all-but-pools", {
      ...all,
      apiGroups: [
        "",
        "apps",
        "berth.dev",
        "events.k8s.io",
        "apiextensions.k8s.io",
        "admissionregistration.k8s.io",
      ],
    });
    const spec = { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" } as const;
    const namespace = "default";
    const pool = await client.create(workerPools, { metadata: { name: "p" }, spec }, { namespace });
    const { uid = "" } = pool.metadata ?? {};
    const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name: "p", uid, controller: true };
    await client.create(nodes, aNode("n1").build());
    const pod = aPod("ateom")
      .labelled({ "ate.dev/worker-pool": "p" })
      .on("n1")
      .with((it) => ({ ...it, metadata: { ...it.metadata, ownerReferences: [owner] } }));
    await client.create(pods, pod.build(), { namespace });
    await client.create(nodeFootprints, {
      metadata: { name: "atelet" },
      spec: { preset: "agent-substrate/owner-uid" },
    });
    await using asUser = cluster.connect({ user: await cluster.user(USER, ["system:authenticated"]) });
    await using berth = await startBerth({ client: asUser });
    await eventually(async () => {
      expect(await conditionOf("AgentPlaced")).toMatchObject({
        status: "Unknown",
        reason: "FootprintUnknown",
        message: text(/^it is not known yet of one node .*: get workerpools\.ate\.dev "p".*forbidden/s),
      });
      expect(await conditionOf("OwnersHeld")).toMatchObject({
        status: "Unknown",
        reason: "FootprintHindered",
        message: text(
          /^the hold of workerpools\.ate\.dev cannot be kept: \w+ workerpools\.ate\.dev.*forbidden/s,
        ),
      });
      expect((await statusOf()).nodes).toMatchObject({ labelled: 0, unknown: 1 });
    });
    expect((await statusOf()).nodes).not.toHaveProperty("pending");
    expect(berth.problems()).toEqual([]);
    const { body } = await berth.metrics.expose();
    expect(body.split("\n")).toContain("berth_footprints_hindered 1");
    // Read, but not changed: the finalizer cannot be put on.
    await grant("read-pools", { apiGroups: ["ate.dev"], resources: ["*"], verbs: ["get", "list", "watch"] });
    await eventually(
      async () =>
        expect(await conditionOf("OwnersHeld")).toMatchObject({
          status: "Unknown",
          message: text(/cannot be kept: patch workerpools\.ate\.dev "p" in "default".*forbidden/s),
        }),
      { timeoutMs: 20_000, everyMs: 200 },
    );
    expect(berth.problems()).toEqual([]);
  });
});
