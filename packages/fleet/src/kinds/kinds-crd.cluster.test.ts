/** The CRDs of the fleet on a real API server: what it fills in, refuses and shows. */
import { toCustomResourceDefinition } from "@berth/host";
import { customResourceDefinitions, namespaces } from "@berth/kube";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { tableOf, tryToCreate, type Verdict } from "../../../kube/src/testing/kubectl.ts";
import {
  type DeploymentStatus,
  type Instance,
  type InstanceSpec,
  instances,
  type WorkloadStatus,
  workloadDeployments,
  workloads,
} from "../api/workload.ts";
import { fleetKinds, instanceKind, workloadKind } from "./kinds.ts";
import {
  fullDeployment,
  fullMachine,
  fullSandbox,
  fullWorkload,
  smallestInstance,
  smallestWorkload,
} from "./testing/specs.ts";

const product = { name: "berth", domain: "berth.dev" };

const namespace = "fleet-kinds";
const crds = fleetKinds.map((kind) => toCustomResourceDefinition(kind, product));
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const crd of crds) await client.apply(customResourceDefinitions, crd);
  await client.create(namespaces, { metadata: { name: namespace } });
  await eventually(async () => {
    for (const { resource } of fleetKinds) await client.list(resource, { namespace });
  });
});

const pathOf = (plural: string): string =>
  `/apis/compute.datumapis.com/v1alpha/namespaces/${namespace}/${plural}`;

/** As kubectl would create it, unknown fields refused. */
function judge(kind: "Workload" | "WorkloadDeployment" | "Instance", spec: unknown): Promise<Verdict> {
  const object = { apiVersion: "compute.datumapis.com/v1alpha", kind, metadata: { name: "tried" }, spec };
  return tryToCreate(cluster, pathOf(`${kind.toLowerCase()}s`), object);
}

/** A copy with one field replaced. `path` is as in `a.0.b`. */
function withField(whole: unknown, path: string, value: unknown): unknown {
  const [key = "", ...rest] = path.split(".");
  const replaced = (field: unknown): unknown =>
    rest.length === 0 ? value : withField(field, rest.join("."), value);
  if (Array.isArray(whole)) return whole.with(Number(key), replaced(whole[Number(key)]));
  const fields = (whole ?? {}) as Readonly<Record<string, unknown>>;
  return { ...fields, [key]: replaced(fields[key]) };
}

/** What kubectl shows of an object, by the title of the column. */
async function shown(plural: string, name: string): Promise<Readonly<Record<string, unknown>>> {
  const { columnDefinitions, rows } = await tableOf(cluster, `${pathOf(plural)}/${name}`);
  return Object.fromEntries(columnDefinitions.map((column, at) => [column.name, rows[0]?.cells[at]]));
}

const available = {
  type: "Available",
  status: "True",
  reason: "StableInstanceFound",
  message: "2/3 instances are ready",
  lastTransitionTime: "2026-11-23T00:00:00Z",
};
const counts = {
  replicas: 4,
  currentReplicas: 1,
  updatedReplicas: 2,
  desiredReplicas: 3,
  readyReplicas: 2,
};
const ofCounts = {
  Available: "True",
  Reason: "StableInstanceFound",
  Replicas: 4,
  Ready: 2,
  Desired: 3,
  "Up-to-date": 2,
};

describe("the CRDs of the fleet", () => {
  it("are established, with nothing to complain about, for the kinds of projects", async () => {
    // The API server serves a kind a moment before its condition says so.
    for (const { metadata: { name = "" } = {} } of crds)
      await eventually(async () => {
        const { metadata, status } = await cluster.client.get(customResourceDefinitions, { name });
        expect(metadata?.annotations).toMatchObject({ "discovery.miloapis.com/parent-contexts": "Project" });
        expect(status?.conditions?.map(({ type, status: is }) => `${type}=${is}`).sort()).toEqual([
          "Established=True",
          "NamesAccepted=True",
        ]);
      });
  });

  it.each([
    { what: "a Workload", kind: "Workload", spec: fullWorkload },
    { what: "a deployment", kind: "WorkloadDeployment", spec: fullDeployment },
    { what: "an Instance of containers", kind: "Instance", spec: fullSandbox },
    { what: "a virtual machine", kind: "Instance", spec: fullMachine },
  ] as const)("take all that the types say of $what, and change nothing", async ({ kind, spec }) => {
    expect(await judge(kind, spec)).toMatchObject({ accepted: true, object: { spec } });
  });

  it("fill in policy, protocol, disk type and names, as a file does", async () => {
    const spec = withField(
      withField(smallestWorkload, "template.spec.runtime.sandbox.containers.0.ports", [
        { name: "http", port: 80 },
      ]),
      "template.spec.volumes",
      [
        { name: "disk", disk: { template: { spec: {} } } },
        { name: "config", configMap: {} },
      ],
    );
    const verdict = await judge("Workload", spec);
    const filled = workloadKind.spec.parse(spec);
    expect(verdict).toMatchObject({ accepted: true, object: { spec: filled } });
    expect(filled).toMatchObject({
      template: {
        spec: {
          runtime: { sandbox: { containers: [{ ports: [{ protocol: "TCP" }] }] } },
          volumes: [{ disk: { template: { spec: { type: "pd-standard" } } } }, { configMap: { name: "" } }],
        },
      },
      placements: [{ scaleSettings: { instanceManagementPolicy: "OrderedReady" } }],
    });
  });

  it("give an object that was stored before a default the same default, and let it be written", async () => {
    const { client } = cluster;
    const crd = toCustomResourceDefinition(instanceKind, product);
    const text = JSON.stringify(crd).replaceAll(',"default":"TCP"', "");
    const before = JSON.parse(text) as typeof crd;
    const of = { namespace, name: "older" };
    const container = { name: "web", image: "registry.test/web:1", ports: [{ name: "http", port: 80 }] };
    const runtime = { ...smallestInstance.runtime, sandbox: { containers: [container] } };
    const protocol = ({ spec }: Instance): unknown =>
      spec?.runtime.sandbox?.containers[0]?.ports?.[0]?.protocol;

    await client.apply(customResourceDefinitions, before);
    await eventually(async () => {
      const metadata = { namespace, generateName: "older-" };
      const spec = { ...smallestInstance, runtime };
      const tried = await client.create(instances, { metadata, spec }, { dryRun: true });
      expect(protocol(tried)).toBeUndefined();
    });
    await client.create(instances, { metadata: of, spec: { ...smallestInstance, runtime } });
    await client.apply(customResourceDefinitions, crd);
    await eventually(async () => expect(protocol(await client.get(instances, of))).toBe("TCP"));
    const labelled = { metadata: { labels: { a: "b" } }, spec: { runtime } };
    const written = await client.patch(instances, of, { type: "merge", body: labelled });
    expect(written.metadata).toMatchObject({ generation: 1, labels: { a: "b" } });
  });

  it("keep of the metadata of a template what an object may have", async () => {
    const metadata = {
      name: "n",
      namespace: "ns",
      labels: { a: "b" },
      annotations: { c: "d" },
      finalizers: ["example.com/f"],
    };
    const verdict = await judge("Workload", withField(smallestWorkload, "template.metadata", metadata));
    expect(verdict).toMatchObject({ accepted: true, object: { spec: { template: { metadata } } } });
  });
});

describe("the CRD of Workload", () => {
  const PLACE = "placements.0";
  const SCALE = `${PLACE}.scaleSettings`;
  const SPEC = "template.spec";
  const CONTAINER = `${SPEC}.runtime.sandbox.containers.0`;
  const twice = [
    { name: "a", port: 1 },
    { name: "a", port: 2 },
  ];
  const refused: readonly (readonly [string, string, unknown, string])[] = [
    ["no placement", "placements", [], "spec.placements: Invalid value: 0"],
    ["H2 minReplicas of -1", `${SCALE}.minReplicas`, -1, "greater than or equal to 0"],
    ["H2 minReplicas of 1001", `${SCALE}.minReplicas`, 1001, "less than or equal to 1000"],
    [
      "H2 minReplicas of 2^31",
      `${SCALE}.minReplicas`,
      2 ** 31,
      "spec.placements[0].scaleSettings.minReplicas",
    ],
    ["maxReplicas of 2^31", `${SCALE}.maxReplicas`, 2 ** 31, "spec.placements[0].scaleSettings.maxReplicas"],
    [
      "another policy",
      `${SCALE}.instanceManagementPolicy`,
      "Parallel",
      'Unsupported value: "Parallel": supported values: "OrderedReady"',
    ],
    ["no interface", `${SPEC}.networkInterfaces`, [], "spec.template.spec.networkInterfaces"],
    [
      "no container",
      `${SPEC}.runtime.sandbox.containers`,
      [],
      "spec.template.spec.runtime.sandbox.containers",
    ],
    ["port 0", `${CONTAINER}.ports`, [{ name: "a", port: 0 }], "greater than or equal to 1"],
    ["port 65536", `${CONTAINER}.ports`, [{ name: "a", port: 65_536 }], "less than or equal to 65535"],
    [
      "another protocol",
      `${CONTAINER}.ports`,
      [{ name: "a", port: 1, protocol: "ICMP" }],
      'supported values: "TCP", "UDP", "SCTP"',
    ],
    ["a port name that stands twice", `${CONTAINER}.ports`, twice, "ports[1]: Duplicate value"],
    ["what is no quantity", `${CONTAINER}.resources`, { limits: { cpu: "much" } }, "limits.cpu"],
    [
      "another file system",
      `${SPEC}.volumes`,
      [{ name: "v", disk: { template: { spec: { populator: { filesystem: { type: "xfs" } } } } } }],
      'supported values: "ext4"',
    ],
    ["a field that it does not know", `${SPEC}.replicas`, 3, 'unknown field "spec.template.spec.replicas"'],
  ];
  it.each(refused)("refuses %s", async (_, path, value, words) => {
    const message = expect.stringContaining(words) as string;
    const verdict = await judge("Workload", withField(smallestWorkload, path, value));
    expect(verdict).toMatchObject({ accepted: false, message });
  });

  it("A4 names template and placements when both are absent", async () => {
    const message = expect.stringMatching(/spec.template: Required.*spec.placements: Required/) as string;
    expect(await judge("Workload", {})).toMatchObject({ accepted: false, message });
  });

  it("leaves to admission what admission explains better", async () => {
    const odd = [
      withField(smallestWorkload, `${SCALE}.minReplicas`, 0),
      withField(smallestWorkload, `${PLACE}.name`, "Not_A_Label"),
      withField(smallestWorkload, `${PLACE}.cityCodes`, []),
      withField(smallestWorkload, `${SPEC}.runtime`, { resources: { instanceType: "" } }),
      withField(smallestWorkload, `${SPEC}.networkInterfaces.0.network.name`, ""),
      withField(smallestWorkload, `${SPEC}.volumes`, [{ name: "" }]),
      withField(smallestWorkload, `${SPEC}.controller`, { templateHash: "forged" }),
    ];
    for (const spec of odd) expect(await judge("Workload", spec)).toMatchObject({ accepted: true });
  });

  const places = (count: number) =>
    Array.from({ length: count }, (_, at) => ({
      name: `p${at}`,
      cityCodes: [`C${at}`],
      scaleSettings: { minReplicas: 1 },
    }));

  it("takes 256 placements, and refuses 1,000 and names that stand twice", async () => {
    const verdictOn = (placements: unknown): Promise<Verdict> =>
      judge("Workload", { ...smallestWorkload, placements });
    expect(await verdictOn(places(256))).toMatchObject({ accepted: true });
    expect(await verdictOn(places(1000))).toMatchObject({
      accepted: false,
      message: expect.stringContaining(
        "spec.placements: Too many: 1000: must have at most 256 items",
      ) as string,
    });
    expect(await verdictOn([...places(2), ...places(1)])).toMatchObject({
      accepted: false,
      message: expect.stringContaining("spec.placements[2]: Duplicate value") as string,
    });
  });

  it("takes a template with annotations of 255 KB; the object itself may have 256 KB", async () => {
    const large = { c: "x".repeat(255 * 1024) };
    const spec = withField(smallestWorkload, "template.metadata.annotations", large);
    expect(await judge("Workload", spec)).toMatchObject({ accepted: true });
    const tooLarge = { c: "x".repeat(256 * 1024) };
    const metadata = { namespace, name: "large", annotations: tooLarge };
    const created = cluster.client.create(workloads, { metadata, spec: smallestWorkload });
    await expect(created).rejects.toThrow("metadata.annotations: Too long");
  });

  it("shows Available and counters", async () => {
    const status: WorkloadStatus = {
      conditions: [available],
      deployments: 2,
      ...counts,
      observedGeneration: 1,
      placements: [{ name: "us", conditions: [available], ...counts }],
    };
    const of = { namespace, name: "shown" };
    await cluster.client.create(workloads, { metadata: of, spec: smallestWorkload });
    const patch = { type: "merge", body: { status } } as const;
    const patched = await cluster.client.patch(workloads, of, patch, { subresource: "status" });
    expect(patched.status).toEqual(status);
    expect(await shown("workloads", "shown")).toMatchObject({ ...ofCounts, Deployments: 2 });
  });
});

describe("the CRD of WorkloadDeployment", () => {
  const of = { namespace, name: "w-us-dfw" };

  beforeAll(async () => {
    await cluster.client.create(workloadDeployments, { metadata: of, spec: fullDeployment });
  });

  const patchSpec = (spec: object): Promise<unknown> =>
    cluster.client.patch(workloadDeployments, of, { type: "merge", body: { spec } }, { dryRun: true });

  it.each([
    ["cityCode", { cityCode: "ORD" }],
    ["placementName", { placementName: "eu" }],
    ["workloadRef", { workloadRef: { uid: "another" } }],
  ])("refuses another %s", async (field, change) => {
    await expect(patchSpec(change)).rejects.toThrow(`spec.${field}: Invalid value`);
  });

  it("takes another template and scale", async () => {
    const change = { template: { spec: smallestInstance }, scaleSettings: { minReplicas: 0 } };
    expect(await patchSpec(change)).toMatchObject({ spec: change });
  });

  it("H2 refuses minReplicas of -1", async () => {
    await expect(patchSpec({ scaleSettings: { minReplicas: -1 } })).rejects.toThrow(
      "greater than or equal to 0",
    );
  });

  it("refuses a status without its counters", async () => {
    const patch = { type: "merge", body: { status: { conditions: [available] } } } as const;
    const patched = cluster.client.patch(workloadDeployments, of, patch, { subresource: "status" });
    await expect(patched).rejects.toThrow("status.replicas: Required value");
  });

  it("shows Available, counters and the Location", async () => {
    const status: DeploymentStatus = {
      conditions: [available],
      ...counts,
      location: { namespace: "locations", name: "dfw" },
      observedGeneration: 1,
      observedSourceGeneration: 2 ** 40,
    };
    const patch = { type: "merge", body: { status } } as const;
    const patched = await cluster.client.patch(workloadDeployments, of, patch, { subresource: "status" });
    expect(patched.status).toEqual(status);
    const row = await shown("workloaddeployments", of.name);
    expect(row).toMatchObject({ ...ofCounts, "Location Namespace": "locations", "Location Name": "dfw" });
  });
});

describe("the CRD of Instance", () => {
  const FIXED = "an Instance does not change";
  const { controller: _, location: __, ...bare } = fullSandbox;
  const specs: Readonly<Record<string, InstanceSpec>> = {
    gated: fullSandbox,
    open: { ...fullSandbox, controller: { templateHash: "v1-1" } },
    bare,
    machine: fullMachine,
  };

  beforeAll(async () => {
    for (const [name, spec] of Object.entries(specs)) {
      await cluster.client.create(instances, { metadata: { namespace, name }, spec });
    }
  });

  const patchSpec = (name: string, spec: object): Promise<unknown> =>
    cluster.client.patch(instances, { namespace, name }, { type: "merge", body: { spec } }, { dryRun: true });

  it("lets a gate go from an Instance with 4,096 variables", async () => {
    const env = Array.from({ length: 1024 }, (_, at) => ({ name: `E${at}`, value: "x".repeat(64) }));
    const containers = Array.from({ length: 4 }, (_, at) => ({ name: `c${at}`, image: "image", env }));
    const spec = withField(fullSandbox, "runtime.sandbox.containers", containers) as InstanceSpec;
    await cluster.client.create(instances, { metadata: { namespace, name: "large" }, spec });
    await patchSpec("large", { controller: { schedulingGates: [] } });
    const renamed = withField(containers, "3.env.1023.value", "y");
    await expect(patchSpec("large", { runtime: { sandbox: { containers: renamed } } })).rejects.toThrow(
      FIXED,
    );
  });

  it("R7 says that Programmed, Available, Ready and QuotaGranted are not known yet", async () => {
    const { status } = await cluster.client.get(instances, { namespace, name: "gated" });
    const pending = { status: "Unknown", reason: "Pending", message: "Waiting for controller" };
    const lastTransitionTime = "1970-01-01T00:00:00Z";
    expect(status).toEqual({
      conditions: [
        { type: "Programmed", ...pending, lastTransitionTime },
        { type: "Available", ...pending, lastTransitionTime },
        { type: "Ready", ...pending, lastTransitionTime },
        {
          type: "QuotaGranted",
          status: "Unknown",
          reason: "PendingEvaluation",
          message: "Waiting for quota evaluation",
          lastTransitionTime,
        },
      ],
    });
  });

  const taken: readonly (readonly [string, string, object])[] = [
    ["one gate less", "gated", { controller: { schedulingGates: [{ name: "Quota" }] } }],
    ["an empty list of gates", "gated", { controller: { schedulingGates: [] } }],
    ["no list of gates", "gated", { controller: { schedulingGates: null } }],
    ["an empty list in place of none", "open", { controller: { schedulingGates: [] } }],
    ["what it has already", "gated", fullSandbox],
    ["what it has already, without a controller", "bare", bare],
  ];
  it.each(taken)("takes %s", async (_case, name, change) => {
    expect(await patchSpec(name, change)).toMatchObject({ metadata: { name } });
  });

  const GATES = "spec.controller.schedulingGates: Invalid value";
  const HASH = "spec.controller.templateHash: Invalid value";
  const refused: readonly (readonly [string, string, object, string])[] = [
    [
      "another image",
      "gated",
      { runtime: { sandbox: { containers: [{ name: "web", image: "b" }] } } },
      FIXED,
    ],
    ["another interface", "gated", { networkInterfaces: [{ network: { name: "b" } }] }, FIXED],
    ["a volume less", "machine", { volumes: fullMachine.volumes?.slice(1) }, FIXED],
    ["no volumes any more", "machine", { volumes: null }, FIXED],
    ["a Location that comes late", "bare", { location: { namespace: "n", name: "l" } }, FIXED],
    ["no Location any more", "gated", { location: null }, FIXED],
    ["another hash", "gated", { controller: { templateHash: "v1-2" } }, HASH],
    ["no controller any more", "gated", { controller: null }, HASH],
    ["a controller that comes late", "bare", { controller: { templateHash: "v1-1" } }, HASH],
    ["a gate that comes back", "open", { controller: { schedulingGates: [{ name: "Quota" }] } }, GATES],
    [
      "one gate for another",
      "gated",
      { controller: { schedulingGates: [{ name: "Quota" }, { name: "ReferencedData" }] } },
      GATES,
    ],
  ];
  it.each(refused)("refuses %s", async (_case, name, change, words) => {
    await expect(patchSpec(name, change)).rejects.toThrow(words);
  });

  it("takes a virtual machine back as a program in Go writes it, with empty metadata", async () => {
    const [boot, data] = fullMachine.volumes ?? [];
    const written = {
      ...data,
      disk: { template: { ...data?.disk?.template, metadata: { creationTimestamp: null } } },
    };
    const body = { spec: { volumes: [boot, written] }, metadata: { finalizers: ["example.com/provider"] } };
    const stored = await cluster.client.patch(
      instances,
      { namespace, name: "machine" },
      { type: "merge", body },
    );
    expect(stored.metadata?.finalizers).toEqual(["example.com/provider"]);
    await cluster.client.patch(
      instances,
      { namespace, name: "machine" },
      { type: "merge", body: { metadata: { finalizers: null } } },
    );
  });

  it("shows Ready, addresses and quota", async () => {
    const ready = { ...available, type: "Ready", reason: "Available", message: "instance is ready" };
    const granted = { ...available, type: "QuotaGranted", reason: "QuotaAvailable" };
    const status = {
      conditions: [ready, granted],
      networkInterfaces: [{ assignments: { networkIP: "10.0.0.7", externalIP: "192.0.2.7" } }, {}],
      controller: { observedTemplateHash: "v1-1" },
    };
    const of = { namespace, name: "open" };
    const patch = { type: "merge", body: { status } } as const;
    const patched = await cluster.client.patch(instances, of, patch, { subresource: "status" });
    expect(patched.status).toEqual(status);
    expect(await shown("instances", of.name)).toMatchObject({
      Ready: "True",
      Reason: "Available",
      "Network IP": "10.0.0.7",
      "External IP": "192.0.2.7",
      Message: "instance is ready",
      Quota: "QuotaAvailable",
    });
  });
});
