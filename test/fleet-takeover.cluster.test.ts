/**
 * Instances of an external provider, in a cell that another controller ran before. Claims are in a control plane of their
 * project, which is reached by path.
 */
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { type KubeClient, namespaces, secrets } from "@berth/kube";
import {
  answer,
  type HttpProxy,
  sharedTestCluster,
  startHttpProxy,
  type TestCluster,
} from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { resourceClaims } from "../packages/fleet/src/api/quota.ts";
import { Actor } from "../packages/fleet/src/testing/actor.ts";
import { installCrds, quotaCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { grantClaims } from "../packages/fleet/src/testing/grant-claims.ts";
import {
  aDeployment,
  conditionOf,
  createWorkload,
  type FleetOptions,
  fleetFixture,
  imageChange,
  lookAt,
  uidOf,
  verdict,
} from "./fleet-fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";

const PROVIDER = "provider.example.com/finalizer";
const AT = "2026-01-01T00:00:00Z";
let cluster: TestCluster;
let client: KubeClient;
/** Where the claims of project `web` are. */
let project: TestCluster;
let proxy: HttpProxy;
beforeAll(async () => {
  [cluster, project] = [await sharedFullCluster(), await sharedTestCluster()];
  client = cluster.client;
  await installCrds(project.client, quotaCrds);
  const certificate = await project.authority.issueServing(["127.0.0.1"]);
  const under = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/web/control-plane";
  proxy = await startHttpProxy({ target: project.url, ca: project.ca, certificate, under });
});
afterAll(() => proxy[Symbol.asyncDispose]());

/** What a cell with this provider and this quota service reads. */
const options = (): FleetOptions => ({
  spec: {
    mode: "cell",
    cell: "dfw-01",
    provider: "external",
    quota: { from: "Projects", kubeconfig: "quota" },
  },
  quota: project.kubeconfig({ server: proxy.url }),
});

/** The production cell of the original, with what its other configurations have. */
const OPERATOR = `apiVersion: apiserver.config.datumapis.com/v1alpha1
kind: WorkloadOperator
metricsServer: { bindAddress: "0" }
webhookServer: { tls: { secretRef: { name: compute-webhook-cert, namespace: kube-system } } }
discovery:
  quotaKubeconfigPath: /etc/quota-credentials/kubeconfig
featureFlags: { enableReferencedDataGate: true }
referencedData: { perObjectLimitBytes: 262144 }
`;

const labelsOf = (namespace: string) => ({
  "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web",
  "meta.datumapis.com/upstream-namespace": namespace,
});

const running = (reason: string, type: string) => ({
  type,
  status: "True",
  reason,
  message: "",
  lastTransitionTime: AT,
  observedGeneration: 1,
});

/** Starts each Instance without gates, under its own finalizer, and ends it when it is asked to go. */
async function externalProvider(as: KubeClient): Promise<Actor> {
  const actor = new Actor(as);
  await actor.follow({
    resource: instances,
    async act(instance) {
      const { metadata = {} } = instance;
      const {
        name = "",
        namespace = "",
        uid,
        resourceVersion,
        finalizers = [],
        deletionTimestamp,
      } = metadata;
      const of = { namespace, name };
      const others = finalizers.filter((it) => it !== PROVIDER);
      const finalizersTo = (wanted: readonly string[]) =>
        as.patch(instances, of, {
          type: "merge",
          body: { metadata: { uid, resourceVersion, finalizers: wanted } },
        });
      if (deletionTimestamp !== undefined) {
        if (others.length < finalizers.length) await finalizersTo(others);
        return;
      }
      const { templateHash, schedulingGates = [] } = instance.spec?.controller ?? {};
      if (schedulingGates.length > 0 || verdict(instance, "Available") === "True/Available") return;
      // Its own change brings it back here.
      if (others.length === finalizers.length) {
        await finalizersTo([...finalizers, PROVIDER]);
        return;
      }
      const status = {
        controller: { observedTemplateHash: templateHash },
        conditions: [
          ...(instance.status?.conditions ?? []).filter(
            ({ type }) => !["Programmed", "Available"].includes(type),
          ),
          running("Programmed", "Programmed"),
          running("Available", "Available"),
        ],
      };
      await as.patch(
        instances,
        of,
        { type: "merge", body: { metadata: { uid, resourceVersion }, status } },
        { subresource: "status" },
      );
    },
  });
  return actor;
}

/** Objects as the original leaves them: with its hash, its finalizers, and conditions of its scheduler. */
async function leaveBehind(namespace: string, replicas: number): Promise<WorkloadDeployment> {
  const wanted = aDeployment({ namespace, replicas });
  const metadata = { ...wanted.metadata, finalizers: ["compute.datumapis.com/workload-controller"] };
  const deployment = await client.create(workloadDeployments, { ...wanted, metadata });
  const location = { namespace: "default", name: "dfw" };
  const placed = { conditions: [running("LocationAssigned", "LocationAssigned")], location };
  const counted = {
    ...placed,
    replicas,
    currentReplicas: replicas,
    desiredReplicas: replicas,
    readyReplicas: replicas,
  };
  await client.patch(
    workloadDeployments,
    { namespace, name: "w-us-dfw" },
    { type: "merge", body: { status: counted } },
    { subresource: "status" },
  );
  for (let at = 0; at < replicas; at += 1) await leaveInstance(deployment, at);
  return deployment;
}

async function leaveInstance({ metadata = {}, spec }: WorkloadDeployment, at: number): Promise<void> {
  const { namespace = "", name: owner = "", uid = "" } = metadata;
  const name = `${owner}-${at}`;
  const apiVersion = "compute.datumapis.com/v1alpha";
  const controller = { templateHash: "bcdf245hjk" };
  await client.create(instances, {
    metadata: {
      namespace,
      name,
      labels: {
        "compute.datumapis.com/workload-uid": "uid-of-w",
        "compute.datumapis.com/workload-deployment-uid": uid,
        "compute.datumapis.com/instance-index": String(at),
      },
      finalizers: [
        "compute.datumapis.com/instance-controller",
        "quota.compute.datumapis.com/claim-cleanup",
        PROVIDER,
      ],
      ownerReferences: [
        {
          apiVersion,
          kind: "WorkloadDeployment",
          name: owner,
          uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: { ...spec?.template.spec, location: { namespace: "default", name: "dfw" }, controller },
  } as Instance);
  const conditions = [
    running("Programmed", "Programmed"),
    running("Running", "Running"),
    running("Available", "Available"),
    running("QuotaAvailable", "QuotaGranted"),
    { ...running("Available", "Ready"), message: "Instance is ready" },
  ];
  const status = { conditions, controller: { observedTemplateHash: controller.templateHash } };
  await client.patch(
    instances,
    { namespace, name },
    { type: "merge", body: { status } },
    { subresource: "status" },
  );
  const payer = { apiGroup: "resourcemanager.miloapis.com", kind: "Project", name: "web" };
  await project.client.create(resourceClaims, {
    metadata: {
      namespace,
      name: `instance-${name}`,
      labels: {
        // Its default, and once a name that Berth does not know.
        "compute.datumapis.com/source-cluster": at === 0 ? "dfw" : "single",
        "compute.datumapis.com/instance-namespace": namespace,
      },
    },
    spec: {
      consumerRef: payer,
      resourceRef: payer,
      requests: [
        { resourceType: "compute.datumapis.com/instances", amount: 1 },
        { resourceType: "compute.datumapis.com/vcpus", amount: 1000 },
        { resourceType: "compute.datumapis.com/memory", amount: 2048 },
      ],
    },
  });
}

const claimsIn = async (namespace: string) =>
  (await project.client.list(resourceClaims, { namespace })).items;

it("A24 R27 T1 T2 takes over the cell of the original as a pod of its Deployment, recreates nothing, and drops the leftovers of its scheduler", async () => {
  await using fixture = await fleetFixture(cluster, { ...options(), operator: OPERATOR });
  await using early = await fixture.spawnPod();
  expect(await Promise.race([early.ended, early.ready()])).toBeGreaterThan(0);
  expect(early.output).toContain("/etc/quota-credentials/kubeconfig");
  const kubeconfig = project.kubeconfig({ server: proxy.url });
  await client.create(secrets, {
    metadata: { namespace: "berth-fleet", name: "compute-quota-credentials" },
    data: { kubeconfig: Buffer.from(kubeconfig).toString("base64") },
  });
  const namespace = await fixture.namespace("taken", labelsOf("taken"));
  await project.client.create(namespaces, { metadata: { name: namespace } });
  await using _quota = await grantClaims(project.client, { budget: 10 });
  const seen = lookAt(client, namespace);
  await leaveBehind(namespace, 10);
  const before = await seen.instances();
  const granted = async () =>
    (await claimsIn(namespace)).filter((it) => verdict(it, "Granted") === "True/QuotaAvailable").map(uidOf);
  await patiently(async () => expect(await granted()).toHaveLength(10));
  const claims = await granted();
  const mark = await cluster.audit.mark();
  await using berth = await fixture.spawnPod();
  await berth.ready();
  for (const unused of ["enableReferencedDataGate", "referencedData", "tls.secretRef", "clusterName"])
    expect(berth.log.filter(({ level, msg }) => level === "warn" && msg.includes(unused))).toHaveLength(1);
  await patiently(async () => {
    const { status } = await seen.deployment();
    expect(status).toMatchObject({
      replicas: 10,
      readyReplicas: 10,
      updatedReplicas: 10,
      currentReplicas: 10,
    });
    expect(status?.location).toEqual({ namespace: "default", name: "dfw" });
    expect(status?.conditions?.map(({ type, reason }) => `${type}/${reason}`)).toEqual([
      "Available/StableInstanceFound",
      "ReplicasReady/ReplicasAvailable",
    ]);
  });
  // The next status of an Instance drops `Running`.
  const of = { namespace, name: "w-us-dfw-0" };
  const stopped = before[0]?.status?.conditions?.map((it) =>
    it.type === "Available" ? { ...it, status: "False", reason: "Stopped" } : it,
  );
  const body = { status: { conditions: stopped } };
  await client.patch(instances, of, { type: "merge", body }, { subresource: "status" });
  await patiently(async () => {
    const instance = await seen.instance();
    expect(verdict(instance, "Ready")).toBe("False/Stopped");
    expect(conditionOf(instance, "Running")).toBeUndefined();
  });
  await patiently(async () => expect((await seen.instances()).map(adopted)).toEqual(claims));
  expect((await seen.instances()).map(uidOf)).toEqual(before.map(uidOf));
  expect(await granted()).toEqual(claims);
  const writes = await fixture.requestsSince(mark);
  expect(writes.filter((it) => /^(?:create|delete) /.test(it))).toEqual([]);
  // A new template rolls them as any others, and their claims with them.
  await using _provider = await externalProvider(client);
  await client.patch(
    workloadDeployments,
    { namespace, name: "w-us-dfw" },
    { type: "merge", body: { spec: imageChange("registry.test/web:2") } },
  );
  await patiently(async () =>
    expect((await seen.deployment()).status).toMatchObject({
      observedGeneration: 2,
      updatedReplicas: 10,
      readyReplicas: 10,
    }),
  );
  const after = new Set((await seen.instances()).map(uidOf));
  expect((await granted()).filter((uid) => claims.includes(uid))).toEqual([]);
  expect(await claimsIn(namespace)).toHaveLength(10);
  expect(before.map(uidOf).filter((uid) => after.has(uid))).toEqual([]);
  await client.delete(workloadDeployments, { namespace, name: "w-us-dfw" });
  await seen.empty();
  await patiently(async () => expect(await claimsIn(namespace)).toEqual([]));
  expect(await fixture.refused()).toEqual([]);
});

const adopted = ({ metadata }: Instance): string | undefined => metadata?.annotations?.["berth.dev/claim"];

it("H23 an outage of the quota service leaves ten Ready Instances as they are, and asks for none of their claims", async () => {
  await using fixture = await fleetFixture(cluster, options());
  const namespace = await fixture.namespace("steady", labelsOf("steady"));
  await project.client.create(namespaces, { metadata: { name: namespace } });
  await using _quota = await grantClaims(project.client, { budget: 10 });
  const seen = lookAt(client, namespace);
  await using provider = await externalProvider(client);
  await using berth = await fixture.start();
  await client.create(workloadDeployments, aDeployment({ namespace, replicas: 10 }));
  const names = Array.from({ length: 10 }, (_, at) => `w-us-dfw-${at}`);
  await seen.running(...names);
  await patiently(async () => expect((await seen.deployment()).status).toMatchObject({ readyReplicas: 10 }));
  provider.pause();
  const mark = await cluster.audit.mark();
  const asked = proxy.count({ verb: "get", resource: "resourceclaims" });
  const looks = await berth.metric("compute_reconcile_total", { controller: "instance" });
  {
    using down = proxy.on({ path: /quota\.miloapis\.com/ }, answer(503));
    proxy.cutStreams();
    await down.until();
    for (const name of names) {
      const networkInterfaces = [{ assignments: { externalIP: "192.0.2.1" } }];
      const body = { status: { networkInterfaces } };
      await client.patch(instances, { namespace, name }, { type: "merge", body }, { subresource: "status" });
    }
    await patiently(async () =>
      expect(
        await berth.metric("compute_reconcile_total", { controller: "instance" }),
      ).toBeGreaterThanOrEqual(looks + names.length),
    );
    await seen.running(...names);
  }
  await proxy.untilOpenStreams(1);
  await seen.running(...names);
  expect(await fixture.requestsSince(mark)).toEqual([]);
  expect(proxy.count({ verb: "get", resource: "resourceclaims" })).toBe(asked);
  expect(await fixture.refused()).toEqual([]);
});

describe("2.11 an external provider", () => {
  it("that the Fleet names may write status and finalizers where the webhook guards Instances, and Berth makes no pod; without cities any is taken", async () => {
    await using fixture = await fleetFixture(cluster, {
      spec: { mode: "single", provider: "external", providers: { users: ["provider"] } },
    });
    const user = await cluster.user("provider", ["system:masters"]);
    await using as = cluster.connect({ user });
    await using berth = await fixture.start();
    expect(berth.log.map(({ msg }) => msg)).toContainEqual(expect.stringContaining("lists no cities"));
    await using _provider = await externalProvider(as);
    const namespace = await fixture.namespace("external");
    const seen = lookAt(client, namespace);
    await createWorkload(client, { namespace });
    const [instance] = await seen.running("w-us-dfw-0");
    expect(instance?.metadata?.finalizers).toContain(PROVIDER);
    expect(await seen.pods()).toEqual([]);
    const of = { namespace, name: "w-us-dfw-0" };
    const managed = { failure: { kind: "forbidden" } };
    await patiently(() => expect(as.delete(instances, of, { dryRun: true })).rejects.toMatchObject(managed));
    await client.delete(workloads, { namespace, name: "w" });
    await seen.empty();
    expect(await fixture.refused()).toEqual([]);
  });
});
