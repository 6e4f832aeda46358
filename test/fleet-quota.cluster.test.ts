/**
 * The quota gate, with its claims in another cluster than the Instances: reached by a kubeconfig through a proxy that
 * fails in ways the tests choose. The quota service is played by the test, through the real API server.
 */
import { deepStrictEqual } from "node:assert";
import { type Instance, instances, workloads } from "@berth/fleet";
import { type KubeClient, namespaces, pods } from "@berth/kube";
import {
  answer,
  dropEvent,
  eventually,
  type HttpProxy,
  hold,
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
  changeWorkload,
  conditionOf,
  createWorkload,
  type FleetFixture,
  fleetFixture,
  followCounts,
  followInstances,
  imageChange,
  lookAt,
  nameOf,
  scaleChange,
  uidOf,
  verdict,
} from "./fleet-fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently, quickest } from "./patience.ts";

let cluster: TestCluster;
let client: KubeClient;
/** Where the claims are. */
let plane: TestCluster;
let proxy: HttpProxy;
let fixture: FleetFixture;
beforeAll(async () => {
  [cluster, plane] = [await sharedFullCluster(), await sharedTestCluster()];
  client = cluster.client;
  await installCrds(plane.client, quotaCrds);
  const certificate = await plane.authority.issueServing(["127.0.0.1"]);
  proxy = await startHttpProxy({ target: plane.url, ca: plane.ca, certificate });
  fixture = await fleetFixture(cluster, {
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
  deepStrictEqual(await fixture.refused(), []);
  await fixture[Symbol.asyncDispose]();
  await proxy[Symbol.asyncDispose]();
});

/** In both clusters. */
async function aNamespace(name: string): Promise<string> {
  await plane.client.create(namespaces, { metadata: { name } });
  return await fixture.namespace(name);
}

/** Who pays for what is no Instance. */
const OTHER = { apiGroup: "resourcemanager.miloapis.com", kind: "Project", name: "web" };

const claimsIn = async (namespace: string) => (await plane.client.list(resourceClaims, { namespace })).items;
const outage = () => proxy.on({ path: /quota\.miloapis\.com/ }, answer(503));
const hasGate = ({ spec }: Instance): boolean => (spec?.controller?.schedulingGates ?? []).length > 0;

/** What lets Instances of a namespace start, in order: their gates that go, and their pods that come. */
async function followStarts(
  namespace: string,
): Promise<AsyncDisposable & { readonly steps: readonly string[] }> {
  const steps: string[] = [];
  const actor = new Actor(client);
  const note = (step: string): void => void (steps.includes(step) || steps.push(step));
  const act = (): Promise<void> => Promise.resolve();
  await actor.follow({
    resource: instances,
    act,
    onChange({ object }) {
      const { name, namespace: own } = object.metadata ?? {};
      if (own === namespace && !hasGate(object)) note(`gate of ${name} is open`);
    },
  });
  await actor.follow({
    resource: pods,
    act,
    onChange({ object: { metadata } }) {
      if (metadata?.namespace === namespace) note(`pod ${metadata.name}`);
    },
  });
  return { steps, [Symbol.asyncDispose]: () => actor[Symbol.asyncDispose]() };
}

/** Of a namespace, at each moment: the most claims, and those that went while the pod of their Instance was still there. */
async function followClaims(
  namespace: string,
): Promise<AsyncDisposable & { readonly most: number; readonly early: () => Promise<readonly string[]> }> {
  const live = new Set<string>();
  let most = 0;
  const looks: Promise<string | undefined>[] = [];
  const actor = new Actor(plane.client);
  await actor.follow({
    resource: resourceClaims,
    act: () => Promise.resolve(),
    onChange({ object: { metadata }, type }) {
      if (metadata?.namespace !== namespace || !metadata.name?.startsWith("instance-")) return;
      if (type === "deleted") {
        live.delete(uidOf({ metadata }));
        looks.push(podWithoutClaim(metadata.name, metadata.labels?.["compute.datumapis.com/instance-uid"]));
      } else live.add(uidOf({ metadata }));
      most = Math.max(most, live.size);
    },
  });
  const podWithoutClaim = async (claim: string, instance = ""): Promise<string | undefined> => {
    const items = await lookAt(client, namespace).pods();
    return (
      items.find(({ metadata }) => metadata?.ownerReferences?.some(({ uid }) => uid === instance)) && claim
    );
  };
  return {
    get most() {
      return most;
    },
    early: async () => (await Promise.all(looks)).filter((it) => it !== undefined),
    [Symbol.asyncDispose]: () => actor[Symbol.asyncDispose](),
  };
}

it("A13 A16 R5 R6 A10 R11 a budget of one lets the first Instance start, and a raised one the others, which roll within it", async () => {
  await using _berth = await fixture.start();
  const namespace = await aNamespace("budget");
  const seen = lookAt(client, namespace);
  // Of another kind of resource, and named as the Instance.
  const foreign = await plane.client.create(resourceClaims, {
    metadata: { namespace, name: "w-us-dfw-0" },
    spec: {
      consumerRef: OTHER,
      resourceRef: OTHER,
      requests: [{ resourceType: "other.dev/things", amount: 1 }],
    },
  });
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
  const claim = (await claimsIn(namespace)).find((it) => nameOf(it) !== nameOf(foreign));
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
  quota.setBudget(3);
  await changeWorkload(client, namespace, scaleChange(3));
  const before = await seen.running("w-us-dfw-0", "w-us-dfw-1", "w-us-dfw-2");
  // A roll holds no more claims than Instances, and frees none before its pod is gone.
  await using claims = await followClaims(namespace);
  await using counts = await followCounts(client, namespace);
  const begun = history.steps.length;
  // Statuses within a moment are one write: the first new Instance waits until the roll has shown its begin.
  quota.pause();
  const { metadata } = await changeWorkload(client, namespace, imageChange("registry.test/web:2"));
  const observedGeneration = metadata?.generation ?? 0;
  const isCounted = (counted: object): Promise<void> =>
    patiently(async () =>
      expect((await seen.workload()).status).toMatchObject({ observedGeneration, ...counted }),
    );
  await isCounted({ updatedReplicas: 0, currentReplicas: 0 });
  quota.resume();
  await isCounted({ updatedReplicas: 3, currentReplicas: 3, readyReplicas: 3 });
  expect(history.steps.slice(begun)).toEqual(
    ["w-us-dfw-2", "w-us-dfw-1", "w-us-dfw-0"].flatMap((name) =>
      ["delete", "gone", "create", "ready"].map((it) => `${it} ${name}`),
    ),
  );
  expect(history.mostDown).toBe(1);
  const rising = counts.updated(observedGeneration);
  expect(rising).toEqual(rising.toSorted((a, b) => a - b));
  expect([rising[0], rising.at(-1)]).toEqual([0, 3]);
  const after = new Set((await seen.instances()).map(uidOf));
  expect(before.map(uidOf).filter((uid) => after.has(uid))).toEqual([]);
  expect(claims.most).toBe(3);
  expect(await claims.early()).toEqual([]);
  await client.delete(workloads, { namespace, name: "w" });
  await seen.empty();
  // The claim of the other resource is as it was.
  expect((await claimsIn(namespace)).map((it) => [nameOf(it), uidOf(it), it.spec])).toEqual([
    ["w-us-dfw-0", uidOf(foreign), foreign.spec],
  ]);
});

it("A14 R8 each grant that the watch does not show opens its gate within two seconds", async () => {
  await using _berth = await fixture.start();
  const namespace = await aNamespace("unseen");
  const seen = lookAt(client, namespace);
  using suppressed = proxy.onWatchEvent({ resource: "resourceclaims" }, dropEvent());
  const [granted, opened] = [await plane.audit.mark(), await cluster.audit.mark()];
  await using _quota = await grantClaims(plane.client, { budget: 10 });
  const names = ["w1", "w2", "w3", "w4"];
  for (const name of names) await createWorkload(client, { namespace, name });
  await seen.running(...names.map((name) => `${name}-us-dfw-0`));
  // Both as the servers received them: the test takes no part in the time between.
  const grants = await plane.audit.entriesSince(granted, { verb: "patch", subresource: "status", namespace });
  const gates = await cluster.audit.entriesSince(opened, { verb: "patch", subresource: "", namespace });
  const timeOf = (entries: typeof grants, object: string): number =>
    Date.parse(entries.find(({ name }) => name === object)?.receivedAt ?? "");
  for (const name of names) {
    const tookMs = timeOf(gates, `${name}-us-dfw-0`) - timeOf(grants, `instance-${name}-us-dfw-0`);
    expect(tookMs).toBeGreaterThan(0);
    expect(tookMs).toBeLessThanOrEqual(2000);
  }
  expect(suppressed.hits).toBeGreaterThan(0);
});

it("R4 a grant that the watch shows leads to its Instance, long before the next look", async () => {
  await using _berth = await fixture.start();
  await using quota = await grantClaims(plane.client, { budget: 10 });
  const namespace = await aNamespace("seen");
  // Looks at one Instance are at least 0.9 s apart. The grant follows one whose question gets no answer.
  const openedAfter = async (attempt: number): Promise<number> => {
    const name = `w${attempt}`;
    const asked = hold();
    using _held = proxy.on({ verb: "get", resource: "resourceclaims" }, asked);
    quota.pause();
    await createWorkload(client, { namespace, name });
    await asked.until(1);
    const resumedAt = performance.now();
    quota.resume();
    await eventually(
      async () => expect(hasGate(await lookAt(client, namespace).instance(`${name}-us-dfw-0`))).toBe(false),
      { everyMs: 5 },
    );
    const tookMs = performance.now() - resumedAt;
    asked.release();
    return tookMs;
  };
  expect(await quickest(500, openedAfter)).toBeLessThan(500);
});

it("A15 8.8 over a whole outage of the quota service the gate stays and no pod exists, and the Instance starts after it", async () => {
  await using berth = await fixture.start();
  await using _quota = await grantClaims(plane.client, { budget: 10 });
  const namespace = await aNamespace("outage");
  const seen = lookAt(client, namespace);
  await using started = await followStarts(namespace);
  {
    using _down = outage();
    await createWorkload(client, { namespace });
    await patiently(async () =>
      expect(verdict(await seen.instance(), "QuotaGranted")).toBe("False/QuotaBackendUnavailable"),
    );
    const looks = () => berth.metric("compute_quota_requeues_total");
    const before = await looks();
    await patiently(async () => expect(await looks()).toBeGreaterThan(before + 2));
    expect(verdict(await seen.instance(), "QuotaGranted")).toBe("False/QuotaBackendUnavailable");
    expect(started.steps).toEqual([]);
  }
  await seen.running("w-us-dfw-0");
  expect(started.steps).toEqual(["gate of w-us-dfw-0 is open", "pod w-us-dfw-0"]);
  // Its namespace is missing in the project.
  const lonely = await fixture.namespace("lonely");
  await createWorkload(client, { namespace: lonely });
  await patiently(async () =>
    expect(verdict(await lookAt(client, lonely).instance(), "QuotaGranted")).toBe(
      "False/QuotaNamespaceNotFound",
    ),
  );
});

it("H24 a roll of Ready Instances waits for the quota service, and goes on within one tier", async () => {
  await using _berth = await fixture.start();
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
    await using broken = await fleetFixture(cluster, {
      spec: {
        mode: "single",
        project: { id: "web" },
        quota: { from: "Kubeconfig", kubeconfig: "missing-quota" },
      },
    });
    await using berth = broken.spawn();
    expect(await Promise.race([berth.ended, berth.ready()])).toBeGreaterThan(0);
    expect(berth.output).toContain("missing-quota");
  });
});
