/** `berth clean` leaves a real API server as it was before Berth was first started, capability by capability. */

import { type AdmissionServerSpec, admissionServerSpec } from "@berth/host";
import {
  customResourceDefinitions,
  type DaemonSet,
  daemonSets,
  deployments,
  isApiError,
  leases,
  mutatingAdmissionPolicies,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  pods,
  type Resource,
  secrets,
} from "@berth/kube";
import {
  ARCHITECTURE_GATE,
  architecturePolicies,
  labelRules,
  nodeFootprints,
  startupGates,
  workerPools,
} from "@berth/placement";
import {
  type AllObjects,
  aNode,
  anImage,
  aPod,
  eventually,
  findFreePort,
  readAllObjects,
  sharedTestCluster,
  startRegistry,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { type BerthOptions, startBerth } from "../composition.ts";
import { crds, foreignKinds } from "../kinds.ts";
import { cli, testFolder } from "../testing/harness.ts";
import { listing } from "../testing/registries.ts";

const apiVersion = "berth.dev/v1alpha1";
/** Of Berth's own state. */
const STATE = "clean-state";
/** Of the workloads. */
const namespace = "clean";
const KINDS: readonly Resource[] = [
  labelRules,
  startupGates,
  architecturePolicies,
  nodeFootprints,
  workerPools,
];

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const crd of crds(foreignKinds)) await client.apply(customResourceDefinitions, crd);
  for (const kind of KINDS) await eventually(() => client.list(kind));
  await client.create(namespaces, { metadata: { name: STATE } });
  const labels = { "berth.dev/tolerate-startup-gates": "true" };
  await client.create(namespaces, { metadata: { name: namespace, labels } });
});

interface Story {
  /** What the user has applied before Berth starts. */
  readonly given: () => Promise<unknown>;
  /** What Berth runs with. */
  readonly options?: Partial<BerthOptions>;
  readonly admission?: AdmissionServerSpec["mode"];
  /** The documents of a configuration file. */
  readonly config?: string;
  /** Passes once Berth has done its work; may add objects that `ignore` names. */
  readonly works: () => Promise<unknown>;
  readonly ignore?: (name: string) => boolean;
  /** What is to be true after `clean`, beside the comparison. */
  readonly check?: () => Promise<unknown>;
}

interface Comparison {
  readonly before: AllObjects;
  readonly after: AllObjects;
}

/** All objects of the cluster before the first start of Berth, and after `clean`. */
async function cleaned({
  given,
  options,
  admission = "Off",
  config = "",
  works,
  check,
  ...more
}: Story): Promise<Comparison> {
  const { client } = cluster;
  await using owned = new AsyncDisposableStack();
  owned.defer(async () => {
    for (const kind of KINDS) await client.deleteCollection(kind, kind.namespaced ? { namespace } : {});
    for (const kind of [pods, daemonSets, deployments] as readonly Resource[])
      await client.deleteCollection(kind, { namespace }, { gracePeriodSeconds: 0 });
    await client.deleteCollection(nodes, {});
  });
  const folder = owned.use(await testFolder({ kubeconfig: cluster.kubeconfig(), "berth.yaml": config }));
  await given();
  const before = await readAllObjects(client, more);
  {
    await using own = cluster.connect();
    const port = await findFreePort();
    const address = { bindAddress: `127.0.0.1:${port}`, url: `https://127.0.0.1:${port}` };
    const spec = admissionServerSpec.parse({ mode: admission, ...address });
    await using _berth = await startBerth({
      client: own,
      namespace: STATE,
      lease: { namespace: STATE, name: "berth" },
      admission: { spec, namespace: STATE },
      ...(config !== "" && { config: [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }] }),
      ...options,
    });
    await works();
  }
  await client.get(leases, { namespace: STATE, name: "berth" });
  expect(await readAllObjects(client, more)).not.toEqual(before);
  const args = ["clean", "--yes", "--namespace", STATE, "--kubeconfig", "kubeconfig"];
  const { code, stderr } = await cli([...args, ...(config === "" ? [] : ["--config", "berth.yaml"])], {
    folder: folder.path,
  });
  expect([code, stderr]).toEqual([0, expect.not.stringContaining("could not")]);
  await check?.();
  return { before, after: await readAllObjects(client, more) };
}

const nodeOf = (name: string) => cluster.client.get(nodes, { name });
const taintsOf = async (name: string) => (await nodeOf(name)).spec?.taints?.map(({ key }) => key);
const daemonSetOf = (name: string) => cluster.client.get(daemonSets, { namespace, name });
const tolerationsOf = async (name: string) =>
  (await daemonSetOf(name)).spec?.template.spec?.tolerations?.map(({ key }) => key) ?? [];

function aDaemonSet(name: string, image = "registry.test/agent:1"): DaemonSet {
  const labels = { app: name };
  const containers = [{ name: "main", image }];
  const spec = { containers, tolerations: [{ key: "example.com/own", operator: "Exists" }] };
  return {
    metadata: { name },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

describe("I-4 clean takes back all that Berth has written", () => {
  it("I-4 clean leaves nothing of labels", async () => {
    const { before, after } = await cleaned({
      async given() {
        await cluster.client.create(nodes, aNode("labelled").labelled({ "example.com/device": "x" }).build());
        const spec = {
          match: { all: [{ key: "example.com/device" }] },
          labels: [{ key: "example.com/ruled" }],
        };
        const metadata = { name: "device" };
        await cluster.client.create(labelRules, { apiVersion, kind: "LabelRule", metadata, spec });
      },
      works: () =>
        eventually(async () =>
          expect((await nodeOf("labelled")).metadata?.labels).toHaveProperty(["example.com/ruled"]),
        ),
    });
    expect(after).toEqual(before);
  });

  it.each(["Policy", "Webhook"] as const)(
    "I-4 clean leaves nothing of a gate that admission sets by %s",
    async (admission) => {
      const { before, after } = await cleaned({
        admission,
        options: { backfillAtStart: true },
        async given() {
          await cluster.client.create(nodes, aNode("held").build());
          for (const name of ["tolerating", "rolled"])
            await cluster.client.create(daemonSets, aDaemonSet(name), { namespace });
          const spec = { signals: { conditions: [{ type: "example.com/Ready" }] } };
          const metadata = { name: "network" };
          await cluster.client.create(startupGates, { apiVersion, kind: "StartupGate", metadata, spec });
        },
        async works() {
          const { client } = cluster;
          await eventually(async () => {
            const kind: Resource =
              admission === "Policy" ? mutatingAdmissionPolicies : mutatingWebhookConfigurations;
            expect((await client.list(kind)).items).not.toEqual([]);
            expect(await taintsOf("held")).toContain("startup.k8s.io/initializing");
          });
          // Admission adds the toleration when the template changes; the user changes it back.
          const image = (tag: string) =>
            client.patch(
              daemonSets,
              { namespace, name: "rolled" },
              {
                type: "strategic",
                body: {
                  spec: {
                    template: {
                      spec: { containers: [{ name: "main", image: `registry.test/agent:${tag}` }] },
                    },
                  },
                },
              },
            );
          let tag = 1;
          await eventually(async () => {
            await image(String(++tag));
            expect(await tolerationsOf("rolled")).toHaveLength(2);
          });
          await image("1");
          await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
          const args = ["gate", "tolerate", "--yes", "--namespace", namespace, "--kubeconfig", "kubeconfig"];
          expect((await cli(args, { folder: folder.path })).code).toBe(0);
          expect(await tolerationsOf("tolerating")).toHaveLength(2);
        },
      });
      expect(after).toEqual(before);
    },
  );

  it("I-4 clean leaves nothing of an architecture policy", async () => {
    await using registry = await startRegistry();
    const { reference } = await registry.push(anImage("team/amd:1").platforms("linux/amd64"));
    const held = aPod("held").in(namespace).image("unknown.test/app:1").build();
    const sent = await cluster.client.create(pods, held, { namespace, dryRun: true });
    const { before, after } = await cleaned({
      admission: "Webhook",
      options: { registries: await listing(registry) },
      ignore: (name) => name === `pods ${namespace}/held`,
      async given() {
        await cluster.client.create(nodes, aNode("amd").build());
        await cluster.client.create(nodes, aNode("arm").arm64().build());
        await cluster.client.create(daemonSets, aDaemonSet("agent", reference), { namespace });
        const spec = { mode: "Both", maxHold: "1h", unresolvable: "Closed" };
        const metadata = { name: "all" };
        await cluster.client.create(architecturePolicies, {
          apiVersion,
          kind: "ArchitecturePolicy",
          metadata,
          spec,
        });
      },
      async works() {
        await eventually(async () => {
          expect(await taintsOf("arm")).toContain("supported-arch");
          expect(await tolerationsOf("agent")).toHaveLength(2);
        });
        await eventually(async () => {
          try {
            await cluster.client.create(pods, held, { namespace });
          } catch (error) {
            if (!isApiError(error, "alreadyExists")) throw error;
          }
          const { spec } = await cluster.client.get(pods, { namespace, name: "held" });
          if (spec?.schedulingGates === undefined)
            await cluster.client.delete(pods, { namespace, name: "held" }, { gracePeriodSeconds: 0 });
          expect(spec?.schedulingGates).toEqual([{ name: ARCHITECTURE_GATE }]);
        });
      },
      async check() {
        const { spec } = await cluster.client.get(pods, { namespace, name: "held" });
        expect(spec).toEqual(sent.spec);
      },
    });
    expect(after).toEqual(before);
  });

  it("I-4 clean leaves nothing of footprints, and the agents run where they ran", async () => {
    const { before, after } = await cleaned({
      admission: "Webhook",
      async given() {
        const { client } = cluster;
        for (const name of ["used", "idle"]) await client.create(nodes, aNode(name).build());
        const web = aPod("web").in(namespace).labelled({ app: "web" }).on("used");
        await client.create(pods, web.build(), { namespace });
        await client.create(daemonSets, aDaemonSet("agent"), { namespace });
        const pool = { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" } as const;
        await client.create(workerPools, { metadata: { name: "pool" }, spec: pool }, { namespace });
        const workloads = [{ podSelector: { matchLabels: { app: "web" } } }];
        const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
        const specs = {
          agent: {
            group: { by: "PodLabel", label: "app" },
            wait: { inject: "Webhook", port: 9 },
            agent: { daemonSet: { namespace, name: "agent" }, nodeSelector: "Manage" },
          },
          holding: {
            group: { by: "OwnerUID", owner: { group: "ate.dev", kind: "WorkerPool" } },
            hold: { resource, finalizer: "example.com/hold", onDelete: "Wait" },
          },
        };
        for (const [name, spec] of Object.entries(specs))
          await client.create(nodeFootprints, {
            apiVersion,
            kind: "NodeFootprint",
            metadata: { name },
            spec: { workloads, node: { label: { key: `example.com/${name}` } }, ...spec },
          });
      },
      works: () =>
        eventually(async () => {
          const { client } = cluster;
          expect((await nodeOf("used")).metadata?.labels).toHaveProperty(["example.com/agent"]);
          const { spec } = (await daemonSetOf("agent")) ?? {};
          expect(spec?.template.spec?.nodeSelector).toBeDefined();
          const { metadata } = await client.get(workerPools, { namespace, name: "pool" });
          expect(metadata?.finalizers).toEqual(["example.com/hold"]);
          await client.get(mutatingWebhookConfigurations, { name: "berth-footprint" });
          expect((await client.list(secrets, { namespace: STATE })).items).toHaveLength(1);
        }),
    });
    expect(after).toEqual(before);
  });

  it("I-4 clean leaves nothing of WorkerPools, where the document is given", async () => {
    const { before, after } = await cleaned({
      config: `{apiVersion: ${apiVersion}, kind: WorkerPools, metadata: {name: pools}, spec: {allow: {images: [registry.test/], namespaces: [${namespace}]}}}`,
      async given() {
        const spec = { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" } as const;
        await cluster.client.create(workerPools, { metadata: { name: "pool" }, spec }, { namespace });
      },
      works: () => eventually(() => cluster.client.get(deployments, { namespace, name: "pool-deployment" })),
    });
    expect(after).toEqual(before);
  });
});

describe("S-7 a record that the node's kubelet has forged", () => {
  it("S-7 takes off no taint and no cordon that was never declared, unless a person says so", async () => {
    const { client } = cluster;
    const since = "2026-01-01T00:00:00Z";
    const forged = { c: "gates", r: "cluster/network", since };
    const marks = { "taint/dedicated:NoSchedule": forged, unschedulable: forged };
    const record = JSON.stringify({ v: 1, by: "berth", marks });
    const victim = aNode("victim").annotated({ "berth.dev/marks": record }).build();
    const dedicated = { key: "dedicated", effect: "NoSchedule" } as const;
    await client.create(nodes, { ...victim, spec: { taints: [dedicated], unschedulable: true } });
    const signals = { conditions: [{ type: "example.com/Ready" }] };
    const spec = { taint: { key: "example.k8s.io/network" }, signals };
    await client.create(startupGates, {
      apiVersion,
      kind: "StartupGate",
      metadata: { name: "network" },
      spec,
    });
    const start = async (): Promise<AsyncDisposable> => {
      await using owned = new AsyncDisposableStack();
      const own = owned.use(cluster.connect());
      const options = { namespace: STATE, backfillAtStart: true, crdGraceMs: 0 };
      owned.use(await startBerth({ client: own, ...options }));
      return owned.move();
    };
    const others = async () => {
      const { taints = [], unschedulable } = (await nodeOf("victim")).spec ?? {};
      const keys = taints.map(({ key }) => key).filter((key) => !key.startsWith("node.kubernetes.io/"));
      return [...keys, ...(unschedulable === true ? ["unschedulable"] : [])];
    };
    {
      await using _berth = await start();
      await eventually(async () =>
        expect(await others()).toEqual(["dedicated", "example.k8s.io/network", "unschedulable"]),
      );
    }
    await client.delete(startupGates, { name: "network" });
    {
      // It was declared by a process that is gone, and the node alone says that it is Berth's.
      await using _berth = await start();
      await eventually(async () => expect(await others()).toEqual(["dedicated", "unschedulable"]));
    }
    await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
    const clean = (...more: readonly string[]) =>
      cli(["clean", "--namespace", STATE, "--kubeconfig", "kubeconfig", ...more], { folder: folder.path });
    const listed = await clean("--yes");
    expect(listed.stdout).toMatch(/taint\/dedicated:NoSchedule +stays: PlaceNotDeclared/);
    expect(listed.stderr).toContain("--recorded");
    expect(await others()).toEqual(["dedicated", "unschedulable"]);
    expect((await clean("--yes", "--recorded")).code).toBe(0);
    expect(await others()).toEqual([]);
    await client.delete(nodes, { name: "victim" });
  });
});
