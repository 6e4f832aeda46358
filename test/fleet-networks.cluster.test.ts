/**
 * Workloads where networks are: Berth asks for bindings and addresses, and Instances wait for them. The test plays the
 * network controllers, through the real API server.
 */
import { deepStrictEqual } from "node:assert";
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { clusterRoleBindings, clusterRoles, customResourceDefinitions, type KubeClient } from "@berth/kube";
import { type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { locations, networkBindings, networks } from "../packages/fleet/src/api/networking.ts";
import { Actor } from "../packages/fleet/src/testing/actor.ts";
import { installCrds, networkingCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { type NetworkHands, networkHands } from "../packages/fleet/src/testing/network-hands.ts";
import {
  aLocation,
  aWorkload,
  conditionOf,
  createWorkload,
  type FleetFixture,
  fleetFixture,
  lookAt,
  nameOf,
  uidOf,
  verdict,
} from "./fleet-fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";
import type { BerthProcess } from "./product.ts";

let cluster: TestCluster;
let client: KubeClient;
let fixture: FleetFixture;
let berth: BerthProcess;
let hands: NetworkHands;
/** Every reason of every condition that a deployment or an Instance ever had here. */
const reasons = new Set<string>();
const historian = async (): Promise<Actor> => {
  const actor = new Actor(client);
  for (const resource of [workloadDeployments, instances] as const)
    await actor.follow<WorkloadDeployment | Instance>({
      resource,
      act: () => Promise.resolve(),
      onChange({ object: { status } }) {
        for (const { type, reason } of status?.conditions ?? []) reasons.add(`${type}/${reason}`);
      },
    });
  return actor;
};
let history: Actor;
beforeAll(async () => {
  cluster = await sharedFullCluster();
  client = cluster.client;
  await installCrds(client, networkingCrds);
  hands = await networkHands(client);
  history = await historian();
  const spec = { mode: "single", locations: { namespaces: ["default"] } } as const;
  fixture = await fleetFixture(cluster, { spec });
  await client.create(locations, aLocation("dfw", "DFW"));
  berth = await fixture.start();
});
afterAll(async () => {
  await berth[Symbol.asyncDispose]();
  await hands[Symbol.asyncDispose]();
  await history[Symbol.asyncDispose]();
  deepStrictEqual(await fixture.refused(), []);
  await fixture[Symbol.asyncDispose]();
});

async function aNamespace(name: string): Promise<string> {
  await fixture.namespace(name);
  await addNetwork(name);
  return name;
}

const addNetwork = (namespace: string) =>
  client.create(networks, { metadata: { namespace, name: "default" }, spec: { ipam: { mode: "Auto" } } });

const gatesOf = ({ spec }: Instance): readonly string[] =>
  (spec?.controller?.schedulingGates ?? []).map(({ name }) => name);

it("A6 takes the cities of the Locations that the Fleet counts, and names one that it does not", async () => {
  const namespace = await aNamespace("places");
  await client.create(locations, aLocation("own", "LAX", namespace));
  await patiently(async () => {
    const claimed = client.create(workloads, aWorkload({ namespace, cities: ["LAX"] }), { dryRun: true });
    await expect(claimed).rejects.toThrow(/Location places\/own does not count/);
  });
  await patiently(async () => {
    const refused = client.create(workloads, aWorkload({ namespace, cities: ["XXX"] }), { dryRun: true });
    await expect(refused).rejects.toThrow(/supported values: "DFW"/);
  });
});

it("A7 asks whether the user may use the network, with what the user brings along", async () => {
  const namespace = await aNamespace("access");
  const user = await cluster.user("tenant");
  await using tenant = cluster.connect({ user });
  const grant = async (name: string, ...rules: readonly object[]): Promise<void> => {
    const apiGroup = "rbac.authorization.k8s.io";
    await client.apply(clusterRoles, { metadata: { name }, rules } as never);
    await client.apply(clusterRoleBindings, {
      metadata: { name },
      roleRef: { apiGroup, kind: "ClusterRole", name },
      subjects: [{ apiGroup, kind: "User", name: "tenant" }],
    });
  };
  await grant("makes-workloads", {
    apiGroups: ["compute.datumapis.com"],
    resources: ["workloads"],
    verbs: ["create"],
  });
  const create = () => tenant.create(workloads, aWorkload({ namespace }), { dryRun: true });
  await patiently(async () =>
    expect(create()).rejects.toMatchObject({
      failure: {
        kind: "invalid",
        causes: [
          expect.objectContaining({
            field: "spec.template.spec.networkInterfaces[0].network",
            reason: "FieldValueForbidden",
          }),
        ],
      },
    }),
  );
  const mark = await cluster.audit.mark();
  await grant("uses-networks", {
    apiGroups: ["networking.datumapis.com"],
    resources: ["networks"],
    verbs: ["use"],
  });
  await patiently(create);
  const asked = await fixture.requestsSince(mark, ["create"]);
  expect(asked).toContain("create subjectaccessreviews.authorization.k8s.io/ /");
});

it("A17 waits for a Network that is missing, and goes on when it is there", async () => {
  const namespace = await fixture.namespace("missing");
  const seen = lookAt(client, namespace);
  await createWorkload(client, { namespace });
  await patiently(async () => {
    const workload = await seen.workload();
    expect(verdict(workload, "Available")).toBe("False/NetworkNotFound");
    expect(conditionOf(workload, "Available")?.message).toBe("Unable to find networks: default");
  });
  expect(await seen.deployments()).toEqual([]);
  await addNetwork(namespace);
  const [instance = {}] = await seen.running("w-us-dfw-0");
  expect(gatesOf(instance)).toEqual([]);
  expect(instance.spec?.location).toEqual({ namespace: "default", name: "dfw" });
  expect((await seen.deployment()).status?.location).toEqual({ namespace: "default", name: "dfw" });
  await client.delete(workloads, { namespace, name: "w" });
  await seen.empty();
});

it("A17 shows the failure of a NetworkBinding on the Instance, with its message, and opens no gate", async () => {
  const namespace = await aNamespace("failing");
  const seen = lookAt(client, namespace);
  hands.fail("failed-us-dfw-net-0", "the range is used up");
  await createWorkload(client, { namespace, name: "failed" });
  await patiently(async () => {
    const ready = conditionOf(await seen.instance("failed-us-dfw-0"), "Ready");
    expect(ready).toMatchObject({
      status: "False",
      reason: "NetworkFailedToCreate",
      message: "the range is used up",
    });
    expect(verdict(await seen.workload("failed"), "Available")).toBe("False/NetworkFailedToCreate");
  });
  expect(gatesOf(await seen.instance("failed-us-dfw-0"))).toEqual(["Network"]);
  expect(await seen.pods()).toEqual([]);
});

it("A17 shows a failure that comes when the Instance waits already", async () => {
  const namespace = await aNamespace("late");
  const seen = lookAt(client, namespace);
  hands.pause();
  await createWorkload(client, { namespace, name: "late" });
  await patiently(async () =>
    expect(conditionOf(await seen.instance("late-us-dfw-0"), "Ready")).toMatchObject({
      message: "Scheduling gates present: Network",
    }),
  );
  hands.fail("late-us-dfw-net-0", "the range is used up");
  hands.resume();
  await patiently(async () =>
    expect(conditionOf(await seen.instance("late-us-dfw-0"), "Ready")).toMatchObject({
      reason: "NetworkFailedToCreate",
      message: "the range is used up",
    }),
  );
});

it("8.8 waits behind its gate while the network controllers are away, and what runs is left alone", async () => {
  const namespace = await aNamespace("away");
  const seen = lookAt(client, namespace);
  await createWorkload(client, { namespace, name: "before" });
  const [running = {}] = await seen.running("before-us-dfw-0");
  hands.pause();
  await createWorkload(client, { namespace });
  await patiently(async () => {
    const ready = conditionOf(await seen.instance(), "Ready");
    expect(ready).toMatchObject({
      reason: "SchedulingGatesPresent",
      message: expect.stringContaining("Network"),
    });
    expect(verdict(await seen.deployment(), "Available")).toBe("False/NetworkProvisioning");
  });
  expect((await seen.pods()).map(nameOf)).toEqual(["before-us-dfw-0"]);
  hands.resume();
  const all = await seen.running("before-us-dfw-0", "w-us-dfw-0");
  expect(all.map(uidOf)).toContain(uidOf(running));
});

it("A18 R16 H7 has Instances without a Location, which start when it comes, and stay when it goes", async () => {
  const namespace = await aNamespace("roads");
  const seen = lookAt(client, namespace);
  const ord = { namespace: "default", name: "ord" };
  await client.create(locations, aLocation("ord", "ORD"));
  const choice = { namespace, cities: ["ORD"] } as const;
  hands.pause();
  await patiently(() => createWorkload(client, choice));
  await patiently(async () => expect(gatesOf(await seen.instance("w-us-ord-0"))).toEqual(["Network"]));
  await client.delete(locations, ord);
  await patiently(async () =>
    expect(verdict(await seen.deployment("w-us-ord"), "Available")).toBe("False/NoMatchingLocation"),
  );
  hands.resume();
  await client.create(locations, aLocation("ord", "ORD"));
  const [first = {}] = await seen.running("w-us-ord-0");
  await client.delete(locations, ord);
  // The deployment stays, and so does what it makes: a new Instance waits, and an old one runs.
  await client.patch(
    workloads,
    { namespace, name: "w" },
    {
      type: "merge",
      body: { spec: { placements: [{ name: "us", cityCodes: ["ORD"], scaleSettings: { minReplicas: 2 } }] } },
    },
  );
  await patiently(async () => expect(gatesOf(await seen.instance("w-us-ord-1"))).toEqual(["Network"]));
  expect(uidOf(await seen.instance("w-us-ord-0"))).toBe(uidOf(first));
  expect(verdict(await seen.instance("w-us-ord-0"), "Ready")).toBe("True/Available");
  await client.create(locations, aLocation("ord", "ORD"));
  const both = await seen.running("w-us-ord-0", "w-us-ord-1");
  expect(both.map(uidOf)).toContain(uidOf(first));
  expect((await seen.all(networkBindings)).map(nameOf)).toEqual(["w-us-ord-net-0"]);
});

it("8.8 deletes a Workload while networks are not served, and places another one once they are", async () => {
  const [namespace, later] = [await aNamespace("gone"), await aNamespace("later")];
  const [seen, waiting] = [lookAt(client, namespace), lookAt(client, later)];
  await createWorkload(client, { namespace });
  await seen.running("w-us-dfw-0");
  await client.delete(customResourceDefinitions, { name: "subnets.networking.datumapis.com" });
  // Berth takes any city once it does not know them.
  const anywhere = aWorkload({ namespace, name: "any", cities: ["XXX"] });
  await patiently(() => client.create(workloads, anywhere, { dryRun: true }));
  // Berth says after 10 s what it cannot read. Meanwhile the other one goes.
  await createWorkload(client, { namespace: later });
  await client.delete(workloads, { namespace, name: "w" });
  await seen.empty();
  await patiently(async () => {
    const available = conditionOf(await waiting.workload(), "Available");
    expect(available).toMatchObject({ reason: "NetworksNotRead" });
    expect(available?.message).toContain("subnets (not served)");
  });
  await installCrds(client, networkingCrds);
  await patiently(async () => expect((await waiting.deployments()).map(nameOf)).toEqual(["w-us-dfw"]));
  await client.delete(workloads, { namespace: later, name: "w" });
  await waiting.empty();
});

it("A24 S-8 has asked for all that its role permits", async () => {
  expect(await fixture.unused()).toEqual([]);
});

it("R29 with Locations, and networks on, no condition had a reason of the scheduler of old", () => {
  expect([...reasons]).toEqual(
    expect.arrayContaining([
      "Available/NetworkProvisioning",
      "Available/NoMatchingLocation",
      "Available/StableInstanceFound",
      "Ready/SchedulingGatesPresent",
      "Ready/Available",
    ]),
  );
  const old = /LocationAssigned|NoCandidateLocations|NoLocations/;
  expect([...reasons].filter((it) => old.test(it))).toEqual([]);
});
