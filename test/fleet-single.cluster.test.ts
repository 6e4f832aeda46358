/**
 * Workloads in one cluster without networks and quota: `berth run` in mode `single`, with the rights and the policy of its
 * own manifests. The API server, the scheduler and the controllers are real, and kwok plays the kubelets.
 */
import { deepStrictEqual } from "node:assert";
import { setTimeout } from "node:timers/promises";
import { instances, type Workload, workloadDeployments, workloads } from "@berth/fleet";
import {
  isApiError,
  type KubeClient,
  nodes,
  pods,
  type Resource,
  validatingWebhookConfigurations,
} from "@berth/kube";
import { type AuditMark, aNode, eventually, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { seededRun } from "../packages/runtime/src/testing/property.ts";
import {
  aWorkload,
  BAD_IMAGE,
  changeWorkload,
  conditionOf,
  createWorkload,
  type FleetFixture,
  fleetFixture,
  followInstances,
  imageChange,
  lookAt,
  nameOf,
  scaleChange,
  uidOf,
  verdict,
  WRITES,
} from "./fleet-fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";
import type { BerthProcess } from "./product.ts";

let cluster: TestCluster;
let client: KubeClient;
let fixture: FleetFixture;
let berth: BerthProcess;
/** Since when nothing has happened to the Workload in the namespace `resting`. */
let resting: AuditMark;
/** How long Berth has to rest. `make perturb` waits a minute. */
const REST_MS = 1000 * (seededRun(3, process.env).parameters.numRuns ?? 0);
beforeAll(async () => {
  cluster = await sharedFullCluster();
  client = cluster.client;
  fixture = await fleetFixture(cluster, { spec: { mode: "single", cities: ["DFW", "ORD"] } });
  berth = await fixture.spawnPod();
  await berth.ready();
  await fixture.namespace("first");
  // The API server calls a new webhook a moment after it was configured.
  await patiently(async () =>
    deepStrictEqual((await faultsOf(aWorkload({ namespace: "first", cities: ["XXX"] }))).length, 1),
  );
  // Berth replaces a pod that ended within 10 s of its creation only later.
  await createWorkload(client, { namespace: await fixture.namespace("aged") });
  await createWorkload(client, { namespace: await fixture.namespace("resting"), replicas: 2 });
  const seen = lookAt(client, "resting");
  await seen.running("w-us-dfw-0", "w-us-dfw-1");
  await patiently(async () => deepStrictEqual((await seen.workload()).status?.readyReplicas, 2));
  resting = await cluster.audit.mark();
});
afterAll(async () => {
  await berth[Symbol.asyncDispose]();
  deepStrictEqual(await fixture.refused(), []);
  await fixture[Symbol.asyncDispose]();
});

/** `field: message` of each fault that the API server names; nothing is stored. */
async function faultsOf(workload: Workload): Promise<readonly string[]> {
  try {
    await client.create(workloads, workload, { dryRun: true });
    return [];
  } catch (error) {
    if (!isApiError(error) || error.failure.kind !== "invalid") throw error;
    return error.failure.causes.map(({ field, reason }) => `${field}: ${reason}`);
  }
}

const UID_LABEL = "compute.datumapis.com/workload-deployment-uid";

it("A24 boots as a pod of its Deployment, whose probes are answered", async () => {
  expect(fixture.probes).toEqual(["/healthz", "/readyz"]);
  for (const probe of fixture.probes) expect([probe, await berth.answers(probe)]).toEqual([probe, true]);
});

describe("admission", () => {
  it("A6 refuses a city that is not registered, and numbers out of range, with their fields", async () => {
    const scaled = (minReplicas: number, more: object = {}): Workload => {
      const { spec, ...workload } = aWorkload({ namespace: "first" });
      const scaleSettings = { minReplicas, ...more };
      const placements = [{ name: "us", cityCodes: ["DFW"], scaleSettings }];
      return { ...workload, ...(spec && { spec: { ...spec, placements } }) };
    };
    const field = "spec.placements[0].scaleSettings";
    expect(await faultsOf(aWorkload({ namespace: "first", cities: ["XXX"] }))).toEqual([
      "spec.placements[0].cityCodes[0]: FieldValueNotSupported",
    ]);
    expect(await faultsOf(scaled(0))).toEqual([`${field}.minReplicas: FieldValueInvalid`]);
    expect(await faultsOf(scaled(1001))).toEqual([`${field}.minReplicas: FieldValueInvalid`]);
    expect(await faultsOf(scaled(1000))).toEqual([]);
    expect(await faultsOf(scaled(1, { maxReplicas: 3 }))).toEqual([`${field}.metrics: FieldValueRequired`]);
  });

  it("H1 refuses on an update what it refuses on a creation", async () => {
    const namespace = await fixture.namespace("updates");
    await createWorkload(client, { namespace });
    for (const spec of [scaleChange(-1), scaleChange(1, ["XXX"])])
      await expect(changeWorkload(client, namespace, spec)).rejects.toMatchObject({
        failure: { kind: "invalid" },
      });
    await client.delete(workloads, { namespace, name: "w" });
  });

  it("A21 lets users change no Instance and no deployment, and says why", async () => {
    const namespace = await fixture.namespace("users");
    await createWorkload(client, { namespace });
    await lookAt(client, namespace).running("w-us-dfw-0");
    const managed = {
      failure: { kind: "forbidden" },
      message: expect.stringContaining("managed by compute"),
    };
    const of = { namespace, name: "w-us-dfw-0" };
    await expect(client.delete(instances, of)).rejects.toMatchObject(managed);
    const body = { status: { conditions: [] } };
    await expect(
      client.patch(instances, of, { type: "merge", body }, { subresource: "status" }),
    ).rejects.toMatchObject(managed);
    await expect(client.delete(workloadDeployments, { namespace, name: "w-us-dfw" })).rejects.toMatchObject(
      managed,
    );
  });
});

describe("Instances of a Workload", () => {
  it("A2 A9 A11 are created, scaled and rolled one after the other", async () => {
    const namespace = await fixture.namespace("orders");
    const seen = lookAt(client, namespace);
    {
      await using history = await followInstances(client, namespace);
      await createWorkload(client, { namespace, replicas: 2 });
      await seen.running("w-us-dfw-0", "w-us-dfw-1");
      expect(history.steps).toEqual([
        "create w-us-dfw-0",
        "ready w-us-dfw-0",
        "create w-us-dfw-1",
        "ready w-us-dfw-1",
      ]);
    }
    const [first = {}] = await seen.instances();
    {
      await using history = await followInstances(client, namespace);
      await changeWorkload(client, namespace, scaleChange(4));
      await seen.running("w-us-dfw-0", "w-us-dfw-1", "w-us-dfw-2", "w-us-dfw-3");
      await changeWorkload(client, namespace, scaleChange(1));
      await seen.running("w-us-dfw-0");
      const told = history.steps.filter((it) => !/-[01]$/.test(it) || it.startsWith("delete"));
      expect(told.filter((it) => /^(?:create|delete)/.test(it))).toEqual(
        ["create", "create", "delete", "delete", "delete"].map(
          (it, at) => `${it} w-us-dfw-${[2, 3, 3, 2, 1][at]}`,
        ),
      );
    }
    expect((await seen.instances()).map(uidOf)).toEqual([uidOf(first)]);
    await changeWorkload(client, namespace, scaleChange(3));
    await seen.running("w-us-dfw-0", "w-us-dfw-1", "w-us-dfw-2");
    await using history = await followInstances(client, namespace);
    const rolled = ["w-us-dfw-2", "w-us-dfw-1", "w-us-dfw-0"].flatMap((name) =>
      ["delete", "gone", "create", "ready"].map((it) => `${it} ${name}`),
    );
    const restarted = {
      template: {
        metadata: { annotations: { "compute.datumapis.com/restartedAt": "2026-01-01T00:00:00Z" } },
      },
    };
    const restartedAt = history.steps.length;
    await changeWorkload(client, namespace, restarted);
    await patiently(() => expect(history.steps.slice(restartedAt)).toEqual(rolled));
    expect(history.mostDown).toBe(1);
    await patiently(async () => {
      const { readyReplicas, updatedReplicas } = (await seen.deployment()).status ?? {};
      deepStrictEqual([readyReplicas, updatedReplicas], [3, 3]);
    });
    const mark = await cluster.audit.mark();
    await changeWorkload(client, namespace, restarted);
    await createWorkload(client, { namespace, name: "later" });
    await seen.running("later-us-dfw-0", "w-us-dfw-0", "w-us-dfw-1", "w-us-dfw-2");
    const writes = await fixture.requestsSince(mark);
    expect(writes.filter((it) => it.includes("/w-us"))).toEqual([]);
  });

  it("A12 H4 of a bad image say so up to the Workload, and the corrected image heals them without help", async () => {
    const namespace = await fixture.namespace("images");
    const seen = lookAt(client, namespace);
    await createWorkload(client, { namespace, replicas: 2 });
    await seen.running("w-us-dfw-0", "w-us-dfw-1");
    await changeWorkload(client, namespace, imageChange(BAD_IMAGE));
    await patiently(async () => {
      const bad = conditionOf(await seen.instance("w-us-dfw-1"), "Ready");
      expect(bad).toMatchObject({ status: "False", reason: "ImageUnavailable" });
      expect(bad?.message).toContain(BAD_IMAGE);
    });
    // The other one still serves, so the Workload is Available, and says why one fails.
    expect(verdict(await seen.instance("w-us-dfw-0"), "Ready")).toBe("True/Available");
    await patiently(async () =>
      expect(conditionOf(await seen.deployment(), "ReplicasReady")?.message).toContain(BAD_IMAGE),
    );
    await patiently(async () => {
      const failing = conditionOf(await seen.workload(), "Failing");
      expect(failing).toMatchObject({ status: "True", reason: "ImageUnavailable" });
      expect(failing?.message).toContain(BAD_IMAGE);
      const told = (await seen.eventReasons()).filter((it) => it.endsWith(": ImageUnavailable"));
      expect(told.toSorted()).toEqual(["w-us-dfw-1: ImageUnavailable", "w: ImageUnavailable"]);
    });
    await createWorkload(client, { namespace, name: "bad", image: BAD_IMAGE });
    await patiently(async () => {
      expect(verdict(await seen.deployment("bad-us-dfw"), "Available")).toBe("False/ImageUnavailable");
      expect(verdict(await seen.workload("bad"), "Available")).toBe("False/ImageUnavailable");
    });
    await patiently(async () =>
      expect((await seen.eventReasons()).filter((it) => it.startsWith("bad: "))).toEqual([
        "bad: ImageUnavailable",
      ]),
    );
    const good = imageChange("registry.test/web:2");
    await Promise.all([
      changeWorkload(client, namespace, good),
      changeWorkload(client, namespace, good, "bad"),
    ]);
    await seen.running("bad-us-dfw-0", "w-us-dfw-0", "w-us-dfw-1");
    await patiently(async () => expect((await seen.workload()).status?.updatedReplicas).toBe(2));
    expect(verdict(await seen.workload("bad"), "Available")).toBe("True/AvailablePlacementFound");
    expect(conditionOf(await seen.workload(), "Failing")).toBeUndefined();
  });

  it("H5 are removed from above while the first one is not Ready", async () => {
    const namespace = await fixture.namespace("removal");
    const seen = lookAt(client, namespace);
    await createWorkload(client, { namespace, replicas: 3 });
    await seen.running("w-us-dfw-0", "w-us-dfw-1", "w-us-dfw-2");
    await notReady(namespace, "w-us-dfw-0");
    await patiently(async () => expect(verdict(await seen.instance(), "Ready")).toBe("False/Provisioning"));
    await using history = await followInstances(client, namespace);
    await changeWorkload(client, namespace, scaleChange(1));
    await patiently(() => expect(history.steps).toContain("gone w-us-dfw-1"));
    expect(history.steps.filter((it) => it.startsWith("delete"))).toEqual([
      "delete w-us-dfw-2",
      "delete w-us-dfw-1",
    ]);
  });

  it("A8 H3 end with their city, and those of the other city are left alone", async () => {
    const namespace = await fixture.namespace("cities");
    const seen = lookAt(client, namespace);
    const others = { "sidecar.istio.io/inject": "true", "k8s.v1.cni.cncf.io/networks": "host" };
    const metadata = { labels: { app: "web", team: "a", ...others }, annotations: { plain: "b", ...others } };
    await createWorkload(client, { namespace, cities: ["DFW", "ORD"], replicas: 2, metadata });
    const made = await seen.running("w-us-dfw-0", "w-us-dfw-1", "w-us-ord-0", "w-us-ord-1");
    expect(made.map(({ metadata }) => metadata?.labels?.["compute.datumapis.com/instance-index"])).toEqual([
      "0",
      "1",
      "0",
      "1",
    ]);
    expect(made.map(({ metadata }) => metadata?.labels?.["app"])).toEqual(["web", "web", "web", "web"]);
    await patiently(async () =>
      expect((await seen.workload()).status).toMatchObject({
        deployments: 2,
        replicas: 4,
        readyReplicas: 4,
        desiredReplicas: 4,
      }),
    );
    // Instances keep all keys: they are part of the hash. Pods have those that the Fleet lets through.
    for (const instance of made) expect(instance.metadata).toMatchObject(metadata);
    for (const pod of await seen.pods()) {
      expect(pod.metadata).toMatchObject({ labels: { team: "a" }, annotations: { plain: "b" } });
      expect(JSON.stringify(pod.metadata?.labels) + JSON.stringify(pod.metadata?.annotations)).not.toMatch(
        /istio|cncf/,
      );
    }
    for (const deployment of await seen.deployments())
      expect(conditionOf(deployment, "TemplateApplied")).toMatchObject({
        status: "False",
        reason: "KeysLeftOut",
        message: expect.stringContaining("k8s.v1.cni.cncf.io/networks, sidecar.istio.io/inject."),
      });
    await changeWorkload(client, namespace, scaleChange(2, ["DFW"]));
    await patiently(async () => expect((await seen.deployments()).map(nameOf)).toEqual(["w-us-dfw"]));
    expect((await seen.running("w-us-dfw-0", "w-us-dfw-1")).map(uidOf)).toEqual(made.slice(0, 2).map(uidOf));
    expect((await seen.pods()).map(nameOf)).toEqual(["w-us-dfw-0", "w-us-dfw-1"]);
    await client.delete(workloads, { namespace, name: "w" });
    await seen.empty();
  });
});

describe("the pod of an Instance", () => {
  const of = { namespace: "aged", name: "w-us-dfw-0" };
  const seen = () => lookAt(client, of.namespace);

  it("2.11 C20 that is evicted, deleted, or lost with its node is replaced under the same Instance; one without our label stays", async () => {
    const mark = await cluster.audit.mark();
    const [instance] = await seen().running(of.name);
    const replaced = async (): Promise<void> => {
      const [now] = await seen().running(of.name);
      expect(now?.metadata?.uid).toBe(instance?.metadata?.uid);
    };
    const lost = async (lose: () => Promise<unknown>): Promise<void> => {
      const { metadata } = await seen().pod();
      await lose();
      await patiently(async () => expect((await seen().pod()).metadata?.uid).not.toBe(metadata?.uid));
    };
    const status = { phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." };
    await lost(() => client.patch(pods, of, { type: "merge", body: { status } }, { subresource: "status" }));
    await replaced();
    // One that loses the label by which Berth watches goes on, and is found by its name.
    const { metadata: labelled } = await seen().pod();
    const relabel = (to: string | null) =>
      client.patch(pods, of, { type: "merge", body: { metadata: { labels: { [UID_LABEL]: to } } } });
    await relabel(null);
    await patiently(async () =>
      expect(await fixture.requestsSince(mark, ["list"])).toContain(`list pods/ ${of.namespace}/${of.name}`),
    );
    await replaced();
    expect((await seen().pod()).metadata?.uid).toBe(labelled?.uid);
    await relabel(labelled?.labels?.[UID_LABEL] ?? null);
    // The next one goes to a node without a kubelet.
    await cordon(true);
    await client.create(nodes, aNode("silent").build());
    await lost(() => client.delete(pods, of));
    await patiently(async () => expect((await seen().pod()).spec?.nodeName).toBe("silent"));
    const ready = { type: "Ready", status: "True", lastTransitionTime: new Date().toISOString() };
    const started = { phase: "Running", conditions: [ready] };
    await client.patch(pods, of, { type: "merge", body: { status: started } }, { subresource: "status" });
    await replaced();
    await client.delete(nodes, { name: "silent" });
    await cordon(false);
    await client.delete(pods, of);
    await patiently(async () => {
      const down = conditionOf(await seen().instance(), "Ready");
      expect(down).toMatchObject({ status: "False", reason: "Provisioning" });
      expect(down?.message).toContain("kubelet of node silent");
    });
    expect((await seen().pod()).metadata?.deletionGracePeriodSeconds).toBe(30);
    // The garbage collector of pods does this after 40 s.
    await lost(() => client.delete(pods, of, { gracePeriodSeconds: 0 }));
    await replaced();
    const deletions = await fixture.requestsSince(mark, ["delete"]);
    expect(deletions.filter((it) => it.includes("pods/"))).toEqual(["delete pods/ aged/w-us-dfw-0"]);
  });
});

/** No other pod goes to the nodes of kwok. */
async function cordon(unschedulable: boolean): Promise<void> {
  for (const name of ["fleet-1", "fleet-2", "fleet-3"])
    await client.patch(nodes, { name }, { type: "merge", body: { spec: { unschedulable } } });
}

describe("a process that ends at any point", () => {
  it("A23 is followed by one that finishes the roll, and makes nothing twice", async () => {
    const namespace = await fixture.namespace("restarts");
    const seen = lookAt(client, namespace);
    await createWorkload(client, { namespace, replicas: 3 });
    const names = ["w-us-dfw-0", "w-us-dfw-1", "w-us-dfw-2"];
    await seen.running(...names);
    await using history = await followInstances(client, namespace);
    const begun = history.steps.length;
    await changeWorkload(client, namespace, imageChange("registry.test/web:2"));
    for (const step of ["delete w-us-dfw-2", "create w-us-dfw-1", "gone w-us-dfw-0"]) {
      await eventually(() => expect(history.steps.slice(begun)).toContain(step), { everyMs: 1 });
      await berth.kill();
      berth = await fixture.start();
    }
    await patiently(async () =>
      expect((await seen.workload()).status).toMatchObject({ updatedReplicas: 3, readyReplicas: 3 }),
    );
    const rolled = names
      .toReversed()
      .flatMap((name) => ["delete", "gone", "create", "ready"].map((it) => `${it} ${name}`));
    expect(history.steps.slice(begun)).toEqual(rolled);
    expect(history.mostDown).toBe(1);
  });

  it("and while none runs, pods stay, and Workloads can be changed once nothing asks", async () => {
    const namespace = await fixture.namespace("down");
    const seen = lookAt(client, namespace);
    await createWorkload(client, { namespace, replicas: 2 });
    await seen.running("w-us-dfw-0", "w-us-dfw-1");
    await berth.kill();
    const later = () => createWorkload(client, { namespace, name: "later" });
    await expect(later()).rejects.toThrow("failed calling webhook");
    await client.delete(pods, { namespace, name: "w-us-dfw-1" });
    const ofFleet = { labelSelector: "app.kubernetes.io/component=fleet" };
    await client.deleteCollection(validatingWebhookConfigurations, ofFleet);
    await patiently(later);
    await patiently(async () => deepStrictEqual((await seen.pods()).map(nameOf), ["w-us-dfw-0"]));
    berth = await fixture.start();
    await seen.running("later-us-dfw-0", "w-us-dfw-0", "w-us-dfw-1");
    await patiently(async () =>
      deepStrictEqual((await client.list(validatingWebhookConfigurations, ofFleet)).items.length, 1),
    );
  });

  it("A23 at rest writes and asks nothing, and looks at no object twice in a minute", async () => {
    // A search for kinds that are not served goes on, every 5 minutes at the end.
    const requestsSince = async (since: AuditMark): Promise<readonly string[]> => {
      const found = await fixture.requestsSince(since, [...WRITES, "get", "list"]);
      return found.filter(
        (it) => !/^(?:get \/|list customresourcedefinitions\.apiextensions\.k8s\.io\/) \/$/.test(it),
      );
    };
    const looksWithin = async (restMs: number): Promise<number> => {
      const looks = (): Promise<number> => berth.metric("compute_reconcile_total");
      const before = await looks();
      await setTimeout(restMs);
      return (await looks()) - before;
    };
    // First ends what earlier tests began. A pod starts within 2 s, and that is the slowest of what follows one change.
    await patiently(async () => expect(await looksWithin(3000)).toBe(0));
    const mark = await cluster.audit.mark();
    const objects = (await Promise.all([workloads, workloadDeployments, instances].map(countOf))).reduce(
      (sum, count) => sum + count,
    );
    expect(await looksWithin(REST_MS)).toBeLessThanOrEqual(objects * Math.floor(REST_MS / 60_000));
    expect(await requestsSince(mark)).toEqual([]);
    // Nor has it, restarts included, while others changed.
    const asked = await requestsSince(resting);
    expect(asked.length).toBeGreaterThan(0);
    expect(asked.filter((it) => it.includes(" resting/"))).toEqual([]);
  });
});

async function countOf(resource: Resource): Promise<number> {
  return (await client.list(resource)).items.length;
}

/** The kubelet says that its pod is not ready any more. */
async function notReady(namespace: string, name: string): Promise<void> {
  const { status } = await client.get(pods, { namespace, name });
  const conditions = status?.conditions?.map((it) =>
    it.type === "Ready" ? Object.assign({}, it, { status: "False" }) : it,
  );
  await client.patch(
    pods,
    { namespace, name },
    { type: "merge", body: { status: { conditions } } },
    { subresource: "status" },
  );
}

it("R28 R29 no Instance has a gate or a location, and no deployment a condition of the scheduler of old", async () => {
  const all = (await client.list(instances)).items;
  expect(all.length).toBeGreaterThan(0);
  const { length } = all.filter(
    ({ spec }) => spec?.location !== undefined || (spec?.controller?.schedulingGates ?? []).length > 0,
  );
  expect(length).toBe(0);
  const types = (await client.list(workloadDeployments)).items.flatMap(({ status }) =>
    (status?.conditions ?? []).map(({ type }) => type),
  );
  expect(new Set(types)).toEqual(new Set(["Available", "ReplicasReady"]));
});

it("R27 A15 without a kubeconfig of a quota service Instances run, and say that no quota is enforced", async () => {
  const running = (await client.list(instances)).items.filter(
    (it) => verdict(it, "Ready") === "True/Available",
  );
  expect(running.length).toBeGreaterThan(0);
  expect(new Set(running.map((it) => verdict(it, "QuotaGranted")))).toEqual(new Set(["True/QuotaDisabled"]));
});
