/** A cell: deployments come from elsewhere, there are no webhooks, and neither networks nor quota need to exist. */
import { deepStrictEqual } from "node:assert";
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "@berth/fleet";
import { clusterRoles, events, type KubeClient, leases } from "@berth/kube";
import { eventually, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, expect, it } from "vitest";
import { permissionsOf } from "../packages/cli/src/testing/installed.ts";
import { locations, networks } from "../packages/fleet/src/api/networking.ts";
import { Actor } from "../packages/fleet/src/testing/actor.ts";
import { installCrds, networkingCrds, quotaCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { grantClaims } from "../packages/fleet/src/testing/grant-claims.ts";
import { networkHands } from "../packages/fleet/src/testing/network-hands.ts";
import {
  aDeployment,
  aLocation,
  conditionOf,
  createWorkload,
  type FleetFixture,
  fleetFixture,
  followInstances,
  imageChange,
  lookAt,
  nameOf,
  verdict,
  WRITES,
} from "./fleet-fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";
import type { BerthProcess } from "./product.ts";

let cluster: TestCluster;
let client: KubeClient;
beforeAll(async () => {
  cluster = await sharedFullCluster();
  client = cluster.client;
});

let fixture: FleetFixture;
afterEach(async () => {
  deepStrictEqual(await fixture.refused(), []);
  await fixture[Symbol.asyncDispose]();
});

const PROJECT = {
  "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web",
  "meta.datumapis.com/upstream-namespace": "default",
};

const bring = (deployment: WorkloadDeployment) => client.create(workloadDeployments, deployment);
const change = (namespace: string, spec: object) =>
  client.patch(workloadDeployments, { namespace, name: "w-us-dfw" }, { type: "merge", body: { spec } });

/** The versions of deployments and Instances of a namespace, and the writes that made them. */
async function followVersions(
  namespace: string,
): Promise<AsyncDisposable & { readonly check: () => Promise<void> }> {
  const versions = new Set<string>();
  const actor = new Actor(client);
  const mark = await cluster.audit.mark();
  for (const resource of [workloadDeployments, instances] as const)
    await actor.follow<WorkloadDeployment | Instance>({
      resource,
      act: () => Promise.resolve(),
      onChange({ object: { metadata }, type }) {
        if (metadata?.namespace === namespace) versions.add(`${metadata.resourceVersion} ${type}`);
      },
    });
  return {
    /** Each write made a version, and none met one that it did not expect. */
    async check() {
      const entries = await cluster.audit.entriesSince(mark, { namespace });
      const writes = entries.filter(
        ({ verb, resource }) => WRITES.includes(verb) && resource.endsWith(".compute.datumapis.com"),
      );
      const shown = writes.map((it) => `${it.verb} ${it.name}/${it.subresource} ${it.code}`);
      expect(shown.filter((it) => / 4\d\d$/.test(it))).toEqual([]);
      await patiently(() => expect([versions.size, shown]).toEqual([shown.length, shown]));
    },
    [Symbol.asyncDispose]: () => actor[Symbol.asyncDispose](),
  };
}

it("A24 F3 R10 R28 8.7 runs Instances with nothing but its own rights; when the leader is killed, the other replica finishes the roll", async () => {
  fixture = await fleetFixture(cluster, { spec: { mode: "cell", cell: "dfw-01", networking: "Off" } });
  const begin = await cluster.audit.mark();
  const leader = await fixture.spawnPod();
  await leader.ready();
  await using other = await fixture.spawnPod();
  await other.ready();
  deepStrictEqual(fixture.probes, ["/healthz", "/readyz"]);
  for (const probe of fixture.probes) expect([probe, await other.answers(probe)]).toEqual([probe, true]);
  const namespace = await fixture.namespace("cell", PROJECT);
  const seen = lookAt(client, namespace);
  await using versions = await followVersions(namespace);
  await bring(aDeployment({ namespace, replicas: 2 }));
  // 8.7: it has no controller of Workloads.
  await createWorkload(client, { namespace: await fixture.namespace("not-here") });
  const [first = {}] = await seen.running("w-us-dfw-0", "w-us-dfw-1");
  expect(verdict(first, "QuotaGranted")).toBe("True/QuotaDisabled");
  expect(first.spec?.controller?.schedulingGates ?? []).toEqual([]);
  const { items } = await client.list(leases, { namespace: "berth-fleet" });
  expect(items.map(nameOf)).toEqual(["berth-fleet", "compute-cell-dfw-01"]);
  const looks = (berth: BerthProcess, controller: string): Promise<number> =>
    berth.metric("compute_reconcile_total", { controller });
  expect(await looks(leader, "instance")).toBeGreaterThan(0);
  expect(await looks(leader, "deployment")).toBeGreaterThan(0);
  expect(await looks(leader, "workload")).toBe(0);
  expect(await other.metric("compute_reconcile_total")).toBe(0);
  await using history = await followInstances(client, namespace);
  const begun = history.steps.length;
  await change(namespace, imageChange("registry.test/web:2"));
  await eventually(() => expect(history.steps).toContain("gone w-us-dfw-1"), { everyMs: 1 });
  await leader.kill();
  const killedAt = performance.now();
  await patiently(async () => expect(await looks(other, "instance")).toBeGreaterThan(0));
  expect(performance.now() - killedAt).toBeLessThan(30_000);
  await patiently(async () =>
    expect((await seen.deployment()).status).toMatchObject({
      observedGeneration: 2,
      updatedReplicas: 2,
      readyReplicas: 2,
    }),
  );
  expect(history.steps.slice(begun)).toEqual(
    ["w-us-dfw-1", "w-us-dfw-0"].flatMap((name) =>
      ["delete", "gone", "create", "ready"].map((it) => `${it} ${name}`),
    ),
  );
  expect(history.mostDown).toBe(1);
  await versions.check();
  expect(await lookAt(client, "not-here").deployments()).toEqual([]);
  // R28: it does not even ask whether networks are served.
  const asked = await fixture.urisSince(begin);
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.filter((it) => it.includes("networking.datumapis.com"))).toEqual([]);
  const { rules = [] } = await client.get(clusterRoles, { name: "berth-fleet" });
  expect(permissionsOf(rules).flat()).toEqual(
    expect.arrayContaining(["create events.events.k8s.io", "patch events.events.k8s.io"]),
  );
});

it("A24 R10 H11 starts with a quota service that its cluster does not know yet, and asks it once it is there", async () => {
  fixture = await fleetFixture(cluster, {
    spec: { mode: "cell", cell: "dfw-01", quota: { from: "Cluster" } },
  });
  await using _berth = await fixture.start();
  const namespace = await fixture.namespace("waiting", {
    ...PROJECT,
    "meta.datumapis.com/upstream-namespace": "waiting",
  });
  const seen = lookAt(client, namespace);
  await bring(aDeployment({ namespace }));
  await patiently(async () =>
    expect(verdict(await seen.instance(), "QuotaGranted")).toMatch(/^False\/Quota/),
  );
  expect(await seen.pods()).toEqual([]);
  await installCrds(client, quotaCrds);
  await using _quota = await grantClaims(client, { budget: 10 });
  await seen.running("w-us-dfw-0");
  await client.delete(workloadDeployments, { namespace, name: "w-us-dfw" });
  await seen.empty();
  // There are no networks.
  expect(await fixture.unused()).toEqual([
    "create networkbindings.networking.datumapis.com",
    "create subnetclaims.networking.datumapis.com",
  ]);
  // It does not say who pays.
  const nobody = await fixture.namespace("nobody");
  await bring(aDeployment({ namespace: nobody }));
  await patiently(async () =>
    expect(verdict(await lookAt(client, nobody).instance(), "QuotaGranted")).toBe(
      "False/QuotaProjectIDUnresolvable",
    ),
  );
  // R10: where users look.
  await patiently(async () =>
    expect(await lookAt(client, nobody).all(events)).toContainEqual(
      expect.objectContaining({
        type: "Warning",
        reason: "QuotaProjectIDUnresolvable",
        regarding: expect.objectContaining({ kind: "Instance", name: "w-us-dfw-0" }),
      }),
    ),
  );
});

it("H2 3.3 its CRDs keep what no webhook guards: replicas below 0, specs, hashes, and gates that are added", async () => {
  fixture = await fleetFixture(cluster, { spec: { mode: "cell", cell: "dfw-01" } });
  await using _berth = await fixture.start();
  const namespace = await fixture.namespace("guarded", PROJECT);
  const seen = lookAt(client, namespace);
  const invalid = { failure: { kind: "invalid" } };
  await expect(bring(aDeployment({ namespace, replicas: -1 }))).rejects.toMatchObject(invalid);
  await bring(aDeployment({ namespace }));
  // It is of no project: the policy that confines Berth's account refuses its Pod, and the Instance says so.
  const outside = await fixture.namespace("outside");
  await bring(aDeployment({ namespace: outside }));
  await patiently(async () =>
    expect(conditionOf(await lookAt(client, outside).instance(), "Ready")).toMatchObject({
      reason: "ConfigurationError",
      message: expect.stringContaining("namespaceSelector of the Fleet leaves it out"),
    }),
  );
  await seen.running("w-us-dfw-0");
  await expect(change(namespace, { scaleSettings: { minReplicas: -1 } })).rejects.toMatchObject(invalid);
  await expect(change(namespace, { cityCode: "ORD" })).rejects.toMatchObject(invalid);
  const edit = (spec: object) =>
    client.patch(instances, { namespace, name: "w-us-dfw-0" }, { type: "merge", body: { spec } });
  for (const spec of [
    { controller: { templateHash: "v1-0" } },
    { controller: { schedulingGates: [{ name: "Quota" }] } },
    { runtime: { resources: { instanceType: "other" } } },
  ])
    await expect(edit(spec)).rejects.toMatchObject(invalid);
  // What the hub says of it: a generation of the project, a first ordinal, and that it has a later placement elsewhere.
  const say = (annotations: Readonly<Record<string, string | null>>) =>
    client.patch(
      workloadDeployments,
      { namespace, name: "w-us-dfw" },
      { type: "merge", body: { metadata: { annotations } } },
    );
  await say({ "compute.datumapis.com/source-generation": "7", "berth.dev/ordinal-start": "1000" });
  await seen.running("w-us-dfw-1000");
  await say({ "berth.dev/hold": "Superseded" });
  await seen.running();
  await patiently(async () => {
    const held = await seen.deployment();
    const { reason } = conditionOf(held, "Available") ?? {};
    deepStrictEqual([held.status?.observedSourceGeneration, reason], [7, "Superseded"]);
  });
  await say({ "berth.dev/hold": null });
  await seen.running("w-us-dfw-1000");
  // Without replicas it is empty, and it ends when it is deleted.
  await change(namespace, { scaleSettings: { minReplicas: 0 } });
  await seen.running();
  await client.delete(workloadDeployments, { namespace, name: "w-us-dfw" });
  await seen.empty();
});

it("A18 R16 makes Instances without a Location, and they start when it comes", async () => {
  await installCrds(client, networkingCrds);
  await using _hands = await networkHands(client);
  fixture = await fleetFixture(cluster, { spec: { mode: "cell", cell: "dfw-01" } });
  await using _berth = await fixture.start();
  const namespace = await fixture.namespace("nowhere", PROJECT);
  const seen = lookAt(client, namespace);
  await client.create(networks, {
    metadata: { namespace, name: "default" },
    spec: { ipam: { mode: "Auto" } },
  });
  await bring(aDeployment({ namespace }));
  await patiently(async () => {
    expect((await seen.instance()).spec).toMatchObject({
      controller: { schedulingGates: [{ name: "Network" }] },
    });
    expect(conditionOf(await seen.deployment(), "Available")).toMatchObject({
      status: "False",
      reason: "NoMatchingLocation",
      message: 'No Location matches city code "DFW"',
    });
  });
  await client.create(locations, aLocation("dfw", "DFW", namespace));
  await seen.running("w-us-dfw-0");
  expect((await seen.deployment()).status?.location).toEqual({ namespace, name: "dfw" });
});
