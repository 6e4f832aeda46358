/** The rules on a real API server: what users, providers and controllers can write, and what they learn. */
import {
  admissionServerSpec,
  bindAdmission,
  createAdmission,
  ownUsername,
  toCustomResourceDefinition,
} from "@berth/host";
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  type KubeClient,
  namespaces,
  type ObjectMeta,
} from "@berth/kube";
import { clusterName, createMetricsRegistry, createSilentLogger, Manager, systemClock } from "@berth/runtime";
import { eventually, findFreePort, sharedTestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Instance, instances, type Workload, workloadDeployments, workloads } from "../api/workload.ts";
import { fleetKind } from "../fleet/document.ts";
import { fleetKinds } from "../kinds/kinds.ts";
import { type FleetInForce, fleetAdmission } from "./review.ts";
import { type Changes, changed, sandboxWorkload } from "./testing/workloads.ts";

const product = { name: "berth", domain: "berth.dev" };

const NAMESPACE = "fleet-admit";
const spec = fleetKind.spec.parse({
  mode: "single",
  networking: "On",
  provider: "external",
  providers: { users: ["fleet-provider"], groups: ["fleet-providers"] },
});
const cluster = await sharedTestCluster();
const { client } = cluster;
const stop = new AbortController();
let cities: readonly string[] = ["DFW", "ORD"];
let running: Promise<unknown> | undefined;

/** A client with this name that may do everything, unless `groups` say less. */
async function connect(name: string, groups: readonly string[] = ["system:masters"]): Promise<KubeClient> {
  return cluster.connect({ user: await cluster.user(name, [...groups]) });
}

async function startAdmission(): Promise<void> {
  const self = await ownUsername(client, stop.signal);
  const inForce: FleetInForce = { policy: {}, spec, self, networking: () => true, cities: () => cities };
  const port = await findFreePort();
  const address = { bindAddress: `127.0.0.1:${port}`, url: `https://127.0.0.1:${port}` };
  const common = { client, cluster: clusterName("c"), clock: systemClock, log: createSilentLogger() };
  const members = [{ rules: bindAdmission(fleetAdmission, () => inForce), onChange: () => undefined }];
  const admission = createAdmission(
    { spec: admissionServerSpec.parse(address) },
    { ...common, product, installation: "berth", metrics: createMetricsRegistry(), members },
  );
  const { always, elected } = admission;
  running = new Manager({ ...common, always: [always], elected }).run(stop.signal);
  admission.of(fleetAdmission.name)?.changed();
}

const workload = (name: string, changes: Changes = {}): Workload =>
  changed(sandboxWorkload, { metadata: { name, namespace: NAMESPACE }, ...changes });
const at = (name: string) => ({ namespace: NAMESPACE, name });
const merge = (body: object) => ({ type: "merge", body }) as const;
const dryRun = { dryRun: true };
const instanceSpec = workload("x").spec?.template.spec;
const instance = (metadata: ObjectMeta): Instance => ({
  metadata: { ...metadata, namespace: NAMESPACE },
  ...(instanceSpec && { spec: instanceSpec }),
});
const managed = {
  message: expect.stringContaining("managed by compute"),
  failure: { kind: "forbidden" },
};

beforeAll(async () => {
  for (const kind of fleetKinds)
    await client.apply(customResourceDefinitions, toCustomResourceDefinition(kind, product));
  await client.create(namespaces, { metadata: { name: NAMESPACE } });
  await eventually(async () => {
    for (const { resource } of fleetKinds) await client.list(resource, { namespace: NAMESPACE });
  });
  const older = workload("older", {
    "R/resources/requests": { cpu: 1 },
    "metadata/finalizers": ["example.com/a"],
  });
  await client.create(workloads, older);
  await startAdmission();
  const broken = workload("x", { "P/cityCodes": ["XXX"] });
  await eventually(async () => {
    const refusal = await client.create(workloads, broken, dryRun).then(() => "", String);
    if (!refusal.includes("vworkload.kb.io")) throw new Error("the API server does not ask yet");
  });
});

afterAll(async () => {
  stop.abort();
  await running;
});

describe("a Workload", () => {
  it("A5 A6 is refused with all its faults at once, on CREATE and UPDATE", async () => {
    const changes = {
      "P/cityCodes": ["XXX"],
      "P/scaleSettings/minReplicas": 0,
      "R/resources/requests": { cpu: 1 },
    };
    const failure = {
      kind: "invalid",
      causes: [
        {
          reason: "FieldValueNotSupported",
          field: "spec.placements[0].cityCodes[0]",
          message: 'Unsupported value: "XXX": supported values: "DFW", "ORD"',
        },
        {
          reason: "FieldValueInvalid",
          field: "spec.placements[0].scaleSettings.minReplicas",
          message: "Invalid value: 0: must be greater than 0",
        },
        {
          reason: "FieldValueForbidden",
          field: "spec.template.spec.runtime.resources.requests",
          message: "Forbidden: not implemented",
        },
      ],
    };
    const broken = workload("faults", changes);
    await expect(client.create(workloads, broken)).rejects.toMatchObject({ failure });
    await client.create(workloads, workload("faults"));
    const update = merge({ spec: broken.spec ?? {} });
    await expect(client.patch(workloads, at("faults"), update)).rejects.toMatchObject({ failure });
  });

  it("A5 keeps a city that is no longer registered", async () => {
    const placed = { "P/cityCodes": ["ORD"] };
    await client.create(workloads, workload("gone", placed));
    cities = ["DFW"];
    try {
      const more = workload("gone", { ...placed, "P/scaleSettings/minReplicas": 3 });
      const { spec: stored } = await client.patch(workloads, at("gone"), merge({ spec: more.spec ?? {} }));
      expect(stored?.placements[0]?.scaleSettings.minReplicas).toBe(3);
    } finally {
      cities = ["DFW", "ORD"];
    }
  });

  it("A5 can be changed and scaled while it breaks a rule that is newer, but not break it otherwise", async () => {
    await client.patch(workloads, at("older"), merge({ metadata: { labels: { a: "b" }, finalizers: null } }));
    const template = (change: object) => merge({ spec: { template: change } });
    await client.patch(workloads, at("older"), template({ metadata: { labels: { a: "b" } } }));
    const { placements = [] } = workload("older", { "P/scaleSettings/minReplicas": 3 }).spec ?? {};
    await client.patch(workloads, at("older"), merge({ spec: { placements } }));
    const other = template({ spec: { runtime: { resources: { requests: { cpu: 2 } } } } });
    await expect(client.patch(workloads, at("older"), other)).rejects.toThrow("not implemented");
  });

  it("A5 S-15 is refused with a template of 100 KB, and accepted with one city in two placements", async () => {
    const large = workload("large", { "T/metadata/annotations": { note: "x".repeat(100_000) } });
    await expect(client.create(workloads, large)).rejects.toThrow(/the template has 100\d{3} bytes of JSON/);
    const [first] = workload("twice").spec?.placements ?? [];
    const twice = [first, { ...first, name: "eu" }];
    await client.create(workloads, workload("twice", { "spec/placements": twice }), dryRun);
  });

  it("C18 keeps its networks once it has deployments", async () => {
    const interfaces = (name: string) =>
      merge({ spec: { template: { spec: { networkInterfaces: [{ network: { name } }] } } } });
    await client.create(workloads, workload("bound"));
    await client.patch(workloads, at("bound"), interfaces("corrected"));
    const counts = { replicas: 0, currentReplicas: 0, desiredReplicas: 0, readyReplicas: 0 };
    const status = merge({ status: { ...counts, deployments: 1 } });
    await client.patch(workloads, at("bound"), status, { subresource: "status" });
    await expect(client.patch(workloads, at("bound"), interfaces("other"))).rejects.toMatchObject({
      failure: {
        kind: "invalid",
        causes: [{ field: "spec.template.spec.networkInterfaces[0].network.name" }],
      },
    });
  });

  it("A7 is refused to a user who may not use its network, on CREATE and for a changed network", async () => {
    const name = "fleet-admit-ann";
    await client.create(clusterRoles, {
      metadata: { name },
      rules: [
        { apiGroups: ["compute.datumapis.com"], resources: ["workloads"], verbs: ["create", "patch"] },
        {
          apiGroups: ["networking.datumapis.com"],
          resources: ["networks"],
          resourceNames: ["blue"],
          verbs: ["use"],
        },
      ],
    });
    await client.create(clusterRoleBindings, {
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "Group", name }],
    });
    await using ann = await connect("fleet-ann", [name]);
    const using = (...names: readonly string[]): Workload =>
      workload("networks", { "S/networkInterfaces": names.map((it) => ({ network: { name: it } })) });
    const denied = (index: number): object => ({
      failure: {
        kind: "invalid",
        causes: [
          { reason: "FieldValueForbidden", field: `spec.template.spec.networkInterfaces[${index}].network` },
        ],
      },
    });
    // The API server knows rights a moment after they were given.
    await eventually(() => expect(ann.create(workloads, using("red"))).rejects.toMatchObject(denied(0)));
    await client.create(workloads, using("red"));
    const patch = (...names: readonly string[]) =>
      ann.patch(workloads, at("networks"), merge({ spec: using(...names).spec ?? {} }));
    await patch("red", "blue");
    await expect(patch("red", "blue", "green")).rejects.toMatchObject(denied(2));
  });
});

describe("3.3 an Instance", () => {
  it("3.3 is made by Berth alone, and so is a deployment", async () => {
    await using user = await connect("fleet-user");
    await expect(user.create(instances, instance({ name: "i-0" }))).rejects.toMatchObject(managed);
    const { template, placements } = workload("x").spec ?? {};
    const scaleSettings = placements?.[0]?.scaleSettings;
    if (template === undefined || scaleSettings === undefined) throw new Error("it has no template");
    const workloadRef = { name: "w", uid: "u" };
    const deployment = {
      metadata: at("w-us-dfw"),
      spec: { workloadRef, placementName: "us", cityCode: "DFW", template, scaleSettings },
    };
    await expect(user.create(workloadDeployments, deployment)).rejects.toMatchObject(managed);
    await client.create(workloadDeployments, deployment, dryRun);
    await client.create(instances, instance({ name: "i-0" }), dryRun);
  });

  it("3.3 takes labels of users, statuses and finalizers of providers, and deletions of the garbage collector", async () => {
    await client.create(instances, instance({ name: "i-1", finalizers: ["example.com/a"] }));
    await using user = await connect("fleet-user");
    const status = { subresource: "status" };
    const ready = merge({ status: { networkInterfaces: [{ assignments: { networkIP: "192.0.2.1" } }] } });
    const label = (key: string) => merge({ metadata: { labels: { [key]: "b" } } });
    await user.patch(instances, at("i-1"), label("example.com/a"));
    await expect(user.patch(instances, at("i-1"), ready, status)).rejects.toMatchObject(managed);
    await expect(user.delete(instances, at("i-1"))).rejects.toMatchObject(managed);
    const own = user.patch(instances, at("i-1"), label("compute.datumapis.com/instance-index"));
    await expect(own).rejects.toMatchObject(managed);

    for (const provider of [
      await connect("fleet-provider"),
      await connect("p", ["system:masters", "fleet-providers"]),
    ]) {
      await using its = provider;
      const written = await its.patch(instances, at("i-1"), ready, status);
      expect(written.status?.networkInterfaces?.[0]?.assignments?.networkIP).toBe("192.0.2.1");
      await its.patch(instances, at("i-1"), merge({ metadata: { finalizers: ["example.com/b"] } }));
      await expect(its.delete(instances, at("i-1"))).rejects.toMatchObject(managed);
    }

    await using collector = await connect("system:serviceaccount:kube-system:generic-garbage-collector");
    await collector.patch(instances, at("i-1"), merge({ metadata: { finalizers: null } }));
    await collector.delete(instances, at("i-1"));
  });
});
