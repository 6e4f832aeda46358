/**
 * A hub that Karmada carries, and two cells of one city. Karmada itself is played: it moves what real API servers store. No
 * pods run: that an Instance is there shows that its deployment has arrived.
 */
import { deepStrictEqual, notEqual } from "node:assert";
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { type KubeClient, namespaces, type Resource } from "@berth/kube";
import type { AuditMark } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  interpreterCustomizations,
  memberClusters,
  propagationPolicies,
  resourceBindings,
} from "../packages/fleet/src/api/karmada.ts";
import { installCrds, karmadaCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { karmadaHands } from "../packages/fleet/src/testing/karmada-hands.ts";
import { aDeployment, changeWorkload, conditionOf, createWorkload, imageChange } from "./fleet-fixture.ts";
import { barePlanes, type HubFixture } from "./hub-fixture.ts";
import { patiently } from "./patience.ts";

const CITY = "topology.datum.net/city-code";
const CELLS = ["dfw-01", "dfw-02"];
const HEAD = "apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: { name: fleet }\n";
const HUB = `${HEAD}spec: { mode: management, driver: karmada, hub: self, projects: self }\n`;
const inCell = (name: string): string =>
  `${HEAD}spec: { mode: cell, cell: ${name}, networking: "Off", provider: external, hub: { kubeconfig: hub-write-back } }\n`;

let fixture: HubFixture;
let hub: KubeClient;
let karmada: AsyncDisposable;
const cell = (name: string): KubeClient => fixture.plane(name).client;
beforeAll(async () => {
  fixture = await barePlanes(["hub", ...CELLS], []);
  hub = fixture.plane("hub").client;
  await installCrds(hub, karmadaCrds);
  const members = Object.fromEntries(CELLS.map((name) => [name, cell(name)]));
  karmada = await karmadaHands(hub, members, { [CITY]: "DFW" });
  await fixture.allowHub("hub", "write-back");
  await fixture.startHub(HUB);
  for (const name of CELLS) await fixture.startCell(name, inCell(name));
});
afterAll(async () => {
  await karmada?.[Symbol.asyncDispose]();
  await fixture?.[Symbol.asyncDispose]();
});

/** The namespace on the hub and in cells. */
async function hubNamespace(of: string): Promise<string> {
  return `ns-${(await hub.get(namespaces, { name: of })).metadata?.uid}`;
}

async function inProject(name: string): Promise<WorkloadDeployment> {
  return hub.get(workloadDeployments, { namespace: name, name: `${name}-us-dfw` });
}

/** `dfw-01 UID`, of the deployments of a project's namespace. */
async function carriedTo(namespace: string): Promise<readonly string[]> {
  const all = await Promise.all(
    CELLS.map(async (name) => {
      const { items } = await cell(name).list(workloadDeployments, { namespace });
      return items.map(({ metadata }) => `${name} ${metadata?.uid}`);
    }),
  );
  return all.flat();
}

/** What Berth has written into these namespaces, without Events: `patch pods/status web/web-us-dfw-0`. */
async function writtenIn(places: readonly string[], since: AuditMark): Promise<readonly string[]> {
  const entries = await fixture.plane("hub").audit.entriesSince(since, { userAgent: "berth/" });
  return entries
    .filter(({ verb, namespace, resource }) => {
      const isWrite = ["create", "patch", "update", "delete"].includes(verb);
      return isWrite && places.includes(namespace) && !/^(events|leases|tokenreviews)\b/.test(resource);
    })
    .map((it) => `${it.verb} ${it.resource}/${it.subresource} ${it.namespace}/${it.name}`);
}

async function runs(name: string, replicas: number): Promise<void> {
  await patiently(async () => {
    const { status } = await hub.get(workloads, { namespace: name, name });
    const shown = await fixture.shown(name);
    deepStrictEqual([status?.replicas, shown.length], [replicas, replicas]);
  });
}

it("A1 A3 F2 R26 a Workload runs in one cell, and its numbers and Instances are in the project", async () => {
  await hub.create(namespaces, { metadata: { name: "first" } });
  const mark = await fixture.plane("hub").audit.mark();
  await createWorkload(hub, { namespace: "first", name: "first" });
  await runs("first", 1);
  const namespace = await hubNamespace("first");
  expect(await carriedTo(namespace)).toHaveLength(1);
  expect((await inProject("first")).status?.observedSourceGeneration).toBe(1);
  const { items } = await hub.list(propagationPolicies, { namespace });
  expect(items.map(({ metadata }) => metadata?.name)).toEqual(["city-dfw"]);
  expect((await hub.list(interpreterCustomizations)).items).toHaveLength(1);
  const entries = await fixture.plane("hub").audit.entriesSince(mark, { userAgent: "berth/" });
  const written = entries.filter(
    (it) => it.user.endsWith(":berth") && ["create", "patch", "delete"].includes(it.verb),
  );
  const ofHub = written.filter((it) => [namespace, ""].includes(it.namespace) && it.resource !== "leases");
  expect(
    ofHub
      .map(({ verb, resource }) => `${verb} ${resource}`)
      .filter((it) => !/events|webhook/.test(it))
      .sort(),
  ).toEqual([
    "create namespaces",
    "create propagationpolicies.policy.karmada.io",
    "create workloaddeployments.compute.datumapis.com",
  ]);
});

it("2.9 a change reaches the cell, and its echo comes back", async () => {
  await changeWorkload(hub, "first", imageChange("registry.test/web:2"), "first");
  await patiently(async () => {
    const { metadata, status } = await inProject("first");
    deepStrictEqual([metadata?.generation, status?.observedGeneration], [2, 2]);
  });
  expect((await inProject("first")).status?.observedSourceGeneration).toBe(2);
});

it("H16 a copy that a user deletes on the hub comes again, and is shown", async () => {
  const of = { namespace: await hubNamespace("first"), name: "first-us-dfw-0" };
  const before = await hub.get(instances, of);
  await hub.delete(instances, of);
  await patiently(async () => {
    const { metadata } = await hub.get(instances, of);
    const shown = await hub.get(instances, { namespace: "first", name: of.name });
    deepStrictEqual(shown.metadata?.labels?.["compute.datumapis.com/hub-uid"], metadata?.uid);
    notEqual(metadata?.uid, before.metadata?.uid);
    // The default of the schema, until the status of the cell is written.
    notEqual(conditionOf(shown, "Ready")?.reason, "Pending");
  });
  expect(await carriedTo(of.namespace)).toHaveLength(1);
});

/** What the original leaves on all planes of a deployment that it runs in both cells: the Instance in the first one. */
async function leaveOriginal(name: string): Promise<string> {
  await hub.create(namespaces, { metadata: { name } });
  const namespace = await hubNamespace(name);
  const marks = {
    "meta.datumapis.com/upstream-cluster-name": "cluster-single",
    "meta.datumapis.com/upstream-namespace": name,
  };
  const workload = await createWorkload(hub, { namespace: name, name });
  const built = aDeployment({ namespace: name, name });
  const { template } = workload.spec ?? {};
  const workloadRef = { name, uid: workload.metadata?.uid ?? "" };
  const spec = { ...built.spec, ...(template && { template }), workloadRef } as NonNullable<
    WorkloadDeployment["spec"]
  >;
  const deployment = `${name}-us-dfw`;
  const owner = {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "Workload",
    name,
    uid: workloadRef.uid,
    controller: true,
  };
  const source = await hub.create(workloadDeployments, {
    metadata: {
      name: deployment,
      namespace: name,
      labels: { "compute.datumapis.com/workload-uid": workloadRef.uid },
      finalizers: ["compute.datumapis.com/federator"],
      ownerReferences: [owner],
    },
    spec,
  });
  const labels = { [CITY]: "DFW", "meta.datumapis.com/upstream-namespace": name };
  const copied = { metadata: { name: deployment, namespace, labels }, spec };
  for (const client of [hub, cell("dfw-01")])
    await client.create(namespaces, { metadata: { name: namespace, labels: marks } });
  const onHub = await hub.create(workloadDeployments, copied);
  const inCell = await cell("dfw-01").create(workloadDeployments, copied);
  const controller = { templateHash: "7f9c6d5b4" };
  const instance = (of: WorkloadDeployment, isController: boolean, extra: object = {}): Instance => ({
    metadata: {
      name: `${deployment}-0`,
      namespace: of.metadata?.namespace ?? "",
      labels: { "compute.datumapis.com/workload-deployment-name": deployment, ...marks },
      ownerReferences: [
        {
          ...owner,
          kind: "WorkloadDeployment",
          name: deployment,
          uid: of.metadata?.uid ?? "",
          controller: isController,
        },
      ],
      ...extra,
    },
    spec: { ...spec.template.spec, controller },
  });
  const finalizers = ["compute.datumapis.com/instance-controller"];
  await hub.create(instances, instance(onHub, true));
  await hub.create(instances, instance(source, false));
  await cell("dfw-01").create(instances, instance(inCell, true, { finalizers }));
  const resource = {
    apiVersion: owner.apiVersion,
    kind: "WorkloadDeployment",
    namespace,
    name: deployment,
    uid: onHub.metadata?.uid ?? "",
  };
  await hub.create(resourceBindings, {
    metadata: { name: `${deployment}-workloaddeployment`, namespace },
    spec: { resource, clusters: CELLS.map((it) => ({ name: it })) },
  });
  const matchLabels = { [CITY]: "DFW" };
  await hub.create(propagationPolicies, {
    metadata: { name: "city-dfw", namespace },
    spec: {
      resourceSelectors: [
        { apiVersion: owner.apiVersion, kind: "WorkloadDeployment", labelSelector: { matchLabels } },
      ],
      placement: { clusterAffinity: { labelSelector: { matchLabels } } },
    },
  });
  return namespace;
}

it("T1 T3 T4 what the original runs in two cells is taken over as it is, until a person says which one keeps it", async () => {
  const mark = await fixture.plane("hub").audit.mark();
  await fixture.stopHub();
  // Else they would make what the original has made there.
  for (const name of CELLS) await fixture.stopCell(name);
  const namespace = await leaveOriginal("old");
  await fixture.startCell("dfw-01", inCell("dfw-01"));
  // The copy of an Instance that both cells have is that of the first.
  await patiently(async () => {
    const { metadata } = await hub.get(instances, { namespace, name: "old-us-dfw-0" });
    deepStrictEqual(typeof metadata?.annotations?.["berth.dev/cell-uid"], "string");
  });
  await fixture.startCell("dfw-02", inCell("dfw-02"));
  const uids = async (): Promise<readonly (string | undefined)[]> => {
    const of = { namespace, name: "old-us-dfw" };
    const instance = { namespace, name: "old-us-dfw-0" };
    const found = await Promise.all([
      hub.get(propagationPolicies, { namespace, name: "city-dfw" }),
      hub.get(workloadDeployments, of),
      hub.get(instances, instance),
      cell("dfw-01").get(workloadDeployments, of),
      cell("dfw-01").get(instances, instance),
      hub.get(workloadDeployments, { namespace: "old", name: "old-us-dfw" }),
      hub.get(instances, { namespace: "old", name: "old-us-dfw-0" }),
    ]);
    return found.map(({ metadata }) => metadata?.uid);
  };
  const before = await uids();
  await fixture.startHub(HUB);
  await patiently(async () => {
    deepStrictEqual(conditionOf(await inProject("old"), "Placed")?.reason, "AmbiguousCell");
    deepStrictEqual((await inProject("old")).status?.replicas, 2);
  });
  expect(conditionOf(await inProject("old"), "Placed")?.message).toMatch(/^cells dfw-01, dfw-02 have it/);
  expect(await carriedTo(namespace)).toHaveLength(2);
  const body = { metadata: { labels: { [CITY]: null } } };
  await hub.patch(memberClusters, { name: "dfw-02" }, { type: "merge", body });
  await runs("old", 1);
  await patiently(async () => {
    deepStrictEqual((await carriedTo(namespace)).length, 1);
    deepStrictEqual(conditionOf(await inProject("old"), "Placed"), undefined);
    const policy = await hub.get(propagationPolicies, { namespace, name: "city-dfw" });
    deepStrictEqual(policy.spec?.placement?.spreadConstraints?.length, 1);
    const shown = await hub.get(instances, { namespace: "old", name: "old-us-dfw-0" });
    const copy = await hub.get(instances, { namespace, name: "old-us-dfw-0" });
    deepStrictEqual(shown.metadata?.labels?.["compute.datumapis.com/hub-uid"], copy.metadata?.uid);
    deepStrictEqual(typeof copy.metadata?.annotations?.["berth.dev/cell-uid"], "string");
  });
  expect(await uids()).toEqual(before);
  // All of Berth has started again meanwhile.
  expect(await writtenIn(["first", await hubNamespace("first")], mark)).toEqual([]);
});

it("A8 A20 R23 a deletion leaves nothing of it, and the policy goes with the last deployment of its city", async () => {
  const namespace = await hubNamespace("first");
  await hub.delete(workloads, { namespace: "first", name: "first" });
  await patiently(async () => {
    const kinds: readonly Resource[] = [
      workloadDeployments,
      instances,
      propagationPolicies,
      resourceBindings,
    ];
    for (const resource of kinds) deepStrictEqual((await hub.list(resource, { namespace })).items, []);
    deepStrictEqual([await carriedTo(namespace), await fixture.shown("first")], [[], []]);
    deepStrictEqual((await hub.list(workloads, { namespace: "first" })).items, []);
  });
  await runs("old", 1);
  expect((await hub.list(propagationPolicies)).items).toHaveLength(1);
});

it("10.8 no account asked for what it may not do", async () => {
  expect(await fixture.refused()).toEqual([]);
});
