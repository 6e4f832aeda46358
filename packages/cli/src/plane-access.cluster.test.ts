/** What a hub, and others, may do in a cluster with what `berth manifests access` prints, on a real API server. */
import { instances, type WorkloadDeployment, workloadDeployments } from "@berth/fleet";
import {
  type KubeClient,
  leases,
  namespaces,
  type Resource,
  secrets,
  validatingAdmissionPolicyBindings,
} from "@berth/kube";
import { eventually } from "@berth/testcluster";
import { expect, it } from "vitest";
import { aDeployment } from "../../fleet/src/deployment/testing/fixtures.ts";
import { planeAccess } from "./plane-access.ts";
import { clusterWithKinds } from "./testing/cluster.ts";
import { applyManifests } from "./testing/installed.ts";

const MARKS = {
  "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web",
  "meta.datumapis.com/upstream-namespace": "default",
};
const OF_HUB = { "berth.dev/hub-uid": "h" };
const aSpace = (name: string, labels: Readonly<Record<string, string>> = MARKS, annotations = {}) => ({
  metadata: { name, labels, annotations },
});
const brought = (namespace: string, annotations: Readonly<Record<string, string>>): WorkloadDeployment => {
  const { metadata: _metadata, ...deployment } = aDeployment();
  return { ...deployment, metadata: { name: "w-us-dfw", namespace, annotations } };
};
const refused = (request: Promise<unknown>, message: RegExp) => expect(request).rejects.toThrow(message);

it("A24 a hub writes its own deployments in namespaces of projects, and nothing else", async () => {
  const cluster = await clusterWithKinds();
  const access = planeAccess({
    plane: "cell",
    namespace: "hub-access",
    installation: "access",
    confinement: true,
  });
  await applyManifests(cluster.client, access);
  const account = "system:serviceaccount:hub-access:berth-access-hub";
  const user = await cluster.user(account, ["system:serviceaccounts", "system:authenticated"]);
  await using client: KubeClient = cluster.connect({ user });
  // The API server knows a new policy a moment after it was made.
  await eventually(() =>
    refused(client.create(namespaces, aSpace("other"), { dryRun: true }), /its name, labels or annotations/),
  );
  await client.create(namespaces, aSpace("ns-u"));
  for (const odd of [
    aSpace("ns-v", { ...MARKS, "pod-security.kubernetes.io/enforce": "privileged" }),
    aSpace("ns-v", { "meta.datumapis.com/upstream-namespace": "default" }),
    aSpace("ns-v", MARKS, { "scheduler.alpha.kubernetes.io/node-selector": "a=b" }),
  ])
    await refused(client.create(namespaces, odd), /its name, labels or annotations/);
  await refused(client.create(workloadDeployments, brought("ns-u", {})), /it is not of a hub/);
  await refused(client.create(workloadDeployments, brought("default", OF_HUB)), /not in a namespace/);
  await client.create(workloadDeployments, brought("ns-u", OF_HUB));
  const of = { namespace: "ns-u", name: "w-us-dfw" };
  const body = { metadata: { annotations: { "berth.dev/hub-uid": null } } };
  await refused(client.patch(workloadDeployments, of, { type: "merge", body }), /it is not of a hub/);
  await client.delete(workloadDeployments, of);
  for (const resource of [workloadDeployments, instances, namespaces] as readonly Resource[])
    await client.list(resource);
  await client.list(leases, { namespace: "hub-access" });
  for (const request of [
    () => client.list(leases, { namespace: "kube-system" }),
    () => client.delete(namespaces, { name: "ns-u" }),
    () =>
      client.patch(
        namespaces,
        { name: "ns-u" },
        { type: "merge", body: { metadata: { labels: { a: "b" } } } },
      ),
    () => client.create(instances, { metadata: { namespace: "ns-u", name: "w-us-dfw-0" } }),
    () => client.list(secrets, { namespace: "hub-access" }),
  ])
    await expect(request()).rejects.toMatchObject({ failure: { kind: "forbidden" } });
});

it("3.3 in a project only the hub writes deployments and Instances, but for what is on a hub in the same cluster", async () => {
  const cluster = await clusterWithKinds();
  const { client: user } = cluster;
  const access = planeAccess({
    plane: "project",
    namespace: "project-access",
    installation: "project",
    confinement: true,
  });
  await applyManifests(user, access);
  await using owned = new AsyncDisposableStack();
  owned.defer(() => user.delete(validatingAdmissionPolicyBindings, { name: "berth-project-hub" }));
  const account = "system:serviceaccount:project-access:berth-project-hub";
  const groups = ["system:serviceaccounts", "system:authenticated"];
  const hub = owned.use(cluster.connect({ user: await cluster.user(account, groups) }));
  const deployment = brought("default", OF_HUB);
  const managed = /managed by compute/;
  await eventually(() => refused(user.create(workloadDeployments, deployment, { dryRun: true }), managed));
  await hub.create(workloadDeployments, deployment);
  const of = { namespace: "default", name: "w-us-dfw" };
  const instance = deployment.spec?.template.spec;
  const counts = { replicas: 7, currentReplicas: 7, desiredReplicas: 7, readyReplicas: 7 };
  const changes = { metadata: { labels: { team: "a" } }, status: counts };
  const change = { type: "merge", body: changes } as const;
  for (const request of [
    () =>
      user.create(instances, {
        metadata: { ...of, name: "w-us-dfw-0" },
        ...(instance && { spec: instance }),
      }),
    () => user.patch(workloadDeployments, of, change),
    () => user.patch(workloadDeployments, of, change, { subresource: "status" }),
    () => user.delete(workloadDeployments, of),
  ])
    await expect(request()).rejects.toMatchObject({
      message: expect.stringMatching(managed),
      failure: { kind: "forbidden" },
    });
  await hub.delete(workloadDeployments, of);
  await user.create(namespaces, aSpace("ns-of-hub"));
  await user.create(workloadDeployments, brought("ns-of-hub", OF_HUB), { dryRun: true });
});
