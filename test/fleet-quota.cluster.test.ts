/**
 * The quota gate, with its claims in another cluster than the Instances: reached by a kubeconfig through a proxy that
 * fails in ways the tests choose. The quota service is played by the test, through the real API server.
 */
import { deepStrictEqual } from "node:assert";
import { type Instance, workloads } from "@berth/fleet";
import { type KubeClient, namespaces } from "@berth/kube";
import {
  answer,
  dropEvent,
  type HttpProxy,
  sharedTestCluster,
  startHttpProxy,
  type TestCluster,
} from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { resourceClaims } from "../packages/fleet/src/api/quota.ts";
import { installCrds, quotaCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { grantClaims } from "../packages/fleet/src/testing/grant-claims.ts";
import {
  changeWorkload,
  conditionOf,
  createWorkload,
  type FleetWorld,
  fleetWorld,
  followInstances,
  imageChange,
  lookAt,
  nameOf,
  uidOf,
  verdict,
} from "./fleet-world.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently, quickest } from "./patience.ts";

let cluster: TestCluster;
let client: KubeClient;
/** Where the claims are. */
let plane: TestCluster;
let proxy: HttpProxy;
let world: FleetWorld;
beforeAll(async () => {
  [cluster, plane] = [await sharedFullCluster(), await sharedTestCluster()];
  client = cluster.client;
  await installCrds(plane.client, quotaCrds);
  const certificate = await plane.authority.issueServing(["127.0.0.1"]);
  proxy = await startHttpProxy({ target: plane.url, ca: plane.ca, certificate });
  world = await fleetWorld(cluster, {
    spec: {
      mode: "single",
      cities: ["DFW"],
      project: { id: "web" },
      quota: { from: "Kubeconfig", kubeconfig: "quota" },
    },
    quota: plane.kubeconfig({ server: proxy.url }),
  });
});
afterAll(async () => {
  deepStrictEqual(await world.refused(), []);
  await world[Symbol.asyncDispose]();
  await proxy[Symbol.asyncDispose]();
});

/** In both clusters. */
async function aNamespace(name: string): Promise<string> {
  await plane.client.create(namespaces, { metadata: { name } });
  return await world.namespace(name);
}

const claimsIn = async (namespace: string) => (await plane.client.list(resourceClaims, { namespace })).items;
const outage = () => proxy.on({ path: /quota\.miloapis\.com/ }, answer(503));
const hasGate = ({ spec }: Instance): boolean => (spec?.controller?.schedulingGates ?? []).length > 0;

it("A13 A16 R5 a budget of one lets the first Instance start, and a raised one the second, without help", async () => {
  await using _berth = await world.start();
  const namespace = await aNamespace("budget");
  const seen = lookAt(client, namespace);
  await using quota = await grantClaims(plane.client, { budget: 1 });
  await using history = await followInstances(client, namespace);
  await createWorkload(client, { namespace, replicas: 2 });
  await patiently(async () => {
    const second = await seen.instance("w-us-dfw-1");
    expect(verdict(second, "QuotaGranted")).toBe("False/QuotaExceeded");
    for (const type of ["Ready", "Available", "Programmed"])
      expect(verdict(second, type)).toBe("False/PendingQuota");
    const deployment = await seen.deployment();
    expect(conditionOf(deployment, "ReplicasReady")).toMatchObject({
      status: "False",
      message: "1 of 2 desired replicas are pending quota",
    });
    expect(verdict(deployment, "Available")).toBe("True/StableInstanceFound");
  });
  expect(history.steps).toEqual(["create w-us-dfw-0", "ready w-us-dfw-0", "create w-us-dfw-1"]);
  expect((await seen.pods()).map(nameOf)).toEqual(["w-us-dfw-0"]);
  const [claim] = await claimsIn(namespace);
  const consumerRef = { apiGroup: "resourcemanager.miloapis.com", kind: "Project", name: "web" };
  expect(claim).toMatchObject({
    metadata: {
      name: "instance-w-us-dfw-0",
      labels: {
        "compute.datumapis.com/source-cluster": "single",
        "compute.datumapis.com/instance-namespace": namespace,
      },
    },
    spec: {
      consumerRef,
      resourceRef: consumerRef,
      requests: [
        { resourceType: "compute.datumapis.com/instances", amount: 1 },
        { resourceType: "compute.datumapis.com/vcpus", amount: 1000 },
        { resourceType: "compute.datumapis.com/memory", amount: 2048 },
      ],
    },
  });
  quota.setBudget(2);
  const [, second = {}] = await seen.running("w-us-dfw-0", "w-us-dfw-1");
  expect(hasGate(second)).toBe(false);
  expect(verdict(second, "QuotaGranted")).toBe("True/QuotaAvailable");
  expect(await seen.eventReasons()).toEqual(
    expect.arrayContaining(["w-us-dfw-1: QuotaExceeded", "w-us-dfw-1: QuotaGranted"]),
  );
  // A10: a roll holds no more claims than Instances, also while the pods of the old ones end.
  quota.setBudget(2);
  await changeWorkload(client, namespace, imageChange("registry.test/web:2"));
  await patiently(async () => {
    expect((await claimsIn(namespace)).length).toBeLessThanOrEqual(2);
    expect((await seen.workload()).status).toMatchObject({
      observedGeneration: 2,
      updatedReplicas: 2,
      readyReplicas: 2,
    });
  });
  expect(history.mostDown).toBe(1);
  await client.delete(workloads, { namespace, name: "w" });
  await seen.empty();
  expect(await claimsIn(namespace)).toEqual([]);
});

it("A14 R8 a grant that the watch does not show opens the gate within two seconds", async () => {
  await using _berth = await world.start();
  await using _quota = await grantClaims(plane.client, { budget: 10 });
  const namespace = await aNamespace("unseen");
  const seen = lookAt(client, namespace);
  using suppressed = proxy.onWatchEvent({ resource: "resourceclaims" }, dropEvent());
  const openedAfter = async (attempt: number): Promise<number> => {
    const name = `w${attempt}`;
    const claim = { namespace, name: `instance-${name}-us-dfw-0` };
    await createWorkload(client, { namespace, name });
    await patiently(async () =>
      expect(verdict(await plane.client.get(resourceClaims, claim), "Granted")).toBe("True/QuotaAvailable"),
    );
    const grantedAt = performance.now();
    await patiently(async () => expect(hasGate(await seen.instance(`${name}-us-dfw-0`))).toBe(false));
    return performance.now() - grantedAt;
  };
  expect(await quickest(2000, openedAfter)).toBeLessThan(2000);
  expect(suppressed.hits).toBeGreaterThan(0);
  expect(proxy.count({ verb: "get", resource: "resourceclaims", namespace })).toBeGreaterThan(0);
});

it("A15 8.8 an outage of the quota service keeps the gate and names itself, and the Instance starts after it", async () => {
  await using _berth = await world.start();
  await using _quota = await grantClaims(plane.client, { budget: 10 });
  const namespace = await aNamespace("outage");
  const seen = lookAt(client, namespace);
  {
    using _down = outage();
    await createWorkload(client, { namespace });
    await patiently(async () =>
      expect(verdict(await seen.instance(), "QuotaGranted")).toBe("False/QuotaBackendUnavailable"),
    );
    expect(hasGate(await seen.instance())).toBe(true);
    expect(await seen.pods()).toEqual([]);
  }
  await seen.running("w-us-dfw-0");
  // Its namespace is missing in the project.
  const lonely = await world.namespace("lonely");
  await createWorkload(client, { namespace: lonely });
  await patiently(async () =>
    expect(verdict(await lookAt(client, lonely).instance(), "QuotaGranted")).toBe(
      "False/QuotaNamespaceNotFound",
    ),
  );
});

it("H24 a roll of Ready Instances waits for the quota service, and goes on within one tier", async () => {
  await using _berth = await world.start();
  await using _quota = await grantClaims(plane.client, { budget: 10 });
  const namespace = await aNamespace("held");
  const seen = lookAt(client, namespace);
  await createWorkload(client, { namespace, replicas: 2 });
  const before = await seen.running("w-us-dfw-0", "w-us-dfw-1");
  await createWorkload(client, { namespace, name: "bad", image: "registry.test/pull-failure:1" });
  await patiently(async () =>
    expect(verdict(await seen.instance("bad-us-dfw-0"), "Ready")).toContain("ImageUnavailable"),
  );
  const bad = await seen.instance("bad-us-dfw-0");
  {
    using down = outage();
    proxy.cutStreams();
    await down.until();
    // The failed request of a new Instance tells Berth of the outage at once.
    await createWorkload(client, { namespace, name: "probe" });
    await patiently(async () =>
      expect(verdict(await seen.instance("probe-us-dfw-0"), "QuotaGranted")).toBe(
        "False/QuotaBackendUnavailable",
      ),
    );
    const good = imageChange("registry.test/web:2");
    await changeWorkload(client, namespace, good);
    await changeWorkload(client, namespace, good, "bad");
    await patiently(async () => {
      const deployment = await seen.deployment();
      expect(verdict(deployment, "Progressing")).toBe("False/RollPaused");
      expect(verdict(deployment, "Available")).toBe("True/StableInstanceFound");
    });
    expect((await seen.instances()).map(uidOf)).toEqual(expect.arrayContaining(before.map(uidOf)));
    // One that serves nobody is replaced all the same, as soon as its claim can be deleted.
    await patiently(async () =>
      expect((await seen.instance("bad-us-dfw-0")).metadata?.deletionTimestamp).toBeDefined(),
    );
  }
  const resumedAt = performance.now();
  await patiently(async () =>
    expect((await seen.instances()).map(uidOf)).not.toEqual(expect.arrayContaining(before.map(uidOf))),
  );
  expect(performance.now() - resumedAt).toBeLessThan(15_000);
  await seen.running("bad-us-dfw-0", "probe-us-dfw-0", "w-us-dfw-0", "w-us-dfw-1");
  expect((await seen.instances()).map(uidOf)).not.toContain(uidOf(bad));
  expect(conditionOf(await seen.deployment(), "Progressing")).toBeUndefined();
});

describe("R27 a kubeconfig of the quota service", () => {
  it("that does not exist ends the process, and is named", async () => {
    await using broken = await fleetWorld(cluster, {
      spec: {
        mode: "single",
        project: { id: "web" },
        quota: { from: "Kubeconfig", kubeconfig: "missing-quota" },
      },
    });
    const berth = broken.spawn();
    const code = await berth.ended;
    expect(code).toBeGreaterThan(0);
    expect(berth.output).toContain("missing-quota");
  });
});
