/** `berth clean` leaves a real API server as it was before Berth was first started, capability by capability. */
import { instances, workloadDeployments, workloads } from "@berth/fleet";
import { type AdmissionServerSpec, admissionServerSpec } from "@berth/host";
import {
  daemonSets,
  deployments,
  isApiError,
  type KubeObject,
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
  type ClusterSnapshot,
  eventually,
  findFreePort,
  readAllObjects,
  startRegistry,
  type TestCluster,
} from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type BerthOptions, startBerth } from "../composition.ts";
import { aDaemonSet, aDocument, among, becomes, clusterWithKinds } from "../testing/cluster.ts";
import { testFolder } from "../testing/harness.ts";
import { listing } from "../testing/registries.ts";

/** Of Berth's own state. */
const STATE = "clean-state";
/** Of the workloads. */
const namespace = "clean";

let cluster: TestCluster;
let client: TestCluster["client"];
let asNew: ClusterSnapshot;
beforeAll(async () => {
  cluster = await clusterWithKinds();
  client = cluster.client;
  await client.create(namespaces, { metadata: { name: STATE } });
  const labels = { "berth.dev/tolerate-startup-gates": "true" };
  await client.create(namespaces, { metadata: { name: namespace, labels } });
  asNew = await cluster.snapshot();
});
afterEach(() => cluster.restore(asNew));

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
}

/** All objects of the cluster before the first start of Berth, and after `clean`. */
async function cleaned({
  given,
  options,
  admission = "Off",
  config,
  works,
  ...more
}: Story): Promise<readonly [AllObjects, AllObjects]> {
  const files = { kubeconfig: cluster.kubeconfig(), "berth.yaml": config ?? "" };
  await using folder = await testFolder(files);
  await given();
  const before = await readAllObjects(client, more);
  {
    await using own = cluster.connect();
    const bindAddress = `127.0.0.1:${await findFreePort()}`;
    const spec = admissionServerSpec.parse({ mode: admission, bindAddress, url: `https://${bindAddress}` });
    await using _berth = await startBerth({
      client: own,
      namespace: STATE,
      lease: { namespace: STATE, name: "berth" },
      admission: { spec, namespace: STATE },
      ...(config && { config: [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }] }),
      ...options,
    });
    await works();
  }
  await client.get(leases, { namespace: STATE, name: "berth" });
  expect(await readAllObjects(client, more)).not.toEqual(before);
  const line = `clean --yes --namespace ${STATE} --kubeconfig kubeconfig`;
  const { code, stderr } = await folder.berth(config === undefined ? line : `${line} --config berth.yaml`);
  expect([code, stderr]).toEqual([0, expect.not.stringContaining("could not")]);
  return [before, await readAllObjects(client, more)];
}

const OWN = [{ key: "example.com/own", operator: "Exists" }];
const makeDaemonSet = (name: string, image?: string): Promise<unknown> =>
  client.create(daemonSets, aDaemonSet(name, { tolerations: OWN, ...(image && { image }) }), { namespace });
const tolerationsOf = async (name: string) =>
  (await client.get(daemonSets, { namespace, name })).spec?.template.spec?.tolerations;
const tainted = (key: string): object => ({ spec: { taints: among(expect.objectContaining({ key })) } });
const POOL = { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" } as const;

describe("I-4 clean takes back all that Berth has written", () => {
  it("I-4 C21 clean leaves nothing of labels, and no Lease of a fleet but that of another installation", async () => {
    const leaseNamed = (name: string) => client.create(leases, { metadata: { namespace: STATE, name } });
    const [before, after] = await cleaned({
      async given() {
        await leaseNamed("compute-single.berth-other");
        await client.create(nodes, aNode("labelled").labelled({ "example.com/device": "x" }).build());
        const match = { all: [{ key: "example.com/device" }] };
        const labels = [{ key: "example.com/ruled" }];
        await client.create(labelRules, aDocument(labelRules, "device", { match, labels }));
      },
      async works() {
        await leaseNamed("compute-single");
        await becomes(client, nodes, "labelled", { metadata: { labels: { "example.com/ruled": "true" } } });
      },
    });
    expect(after).toEqual(before);
  });

  it.each(["Policy", "Webhook"] as const)(
    "I-4 clean leaves nothing of a gate that admission sets by %s",
    async (admission) => {
      const [before, after] = await cleaned({
        admission,
        options: { backfillAtStart: true },
        async given() {
          await client.create(nodes, aNode("held").build());
          for (const name of ["tolerating", "rolled"]) await makeDaemonSet(name);
          const signals = { conditions: [{ type: "example.com/Ready" }] };
          await client.create(startupGates, aDocument(startupGates, "network", { signals }));
        },
        async works() {
          const kind: Resource =
            admission === "Policy" ? mutatingAdmissionPolicies : mutatingWebhookConfigurations;
          await eventually(async () => expect((await client.list(kind)).items).not.toEqual([]));
          await becomes(client, nodes, "held", tainted("startup.k8s.io/initializing"));
          // Admission adds the toleration when the template changes; the user changes it back.
          const roll = (tag: number) => {
            const containers = [{ name: "main", image: `registry.test/agent:${tag}` }];
            const body = { spec: { template: { spec: { containers } } } };
            return client.patch(daemonSets, { namespace, name: "rolled" }, { type: "strategic", body });
          };
          let tag = 1;
          await eventually(async () => {
            await roll(++tag);
            expect(await tolerationsOf("rolled")).toHaveLength(2);
          });
          await roll(1);
          await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
          const line = `gate tolerate --yes --namespace ${namespace} --kubeconfig kubeconfig`;
          expect((await folder.berth(line)).code).toBe(0);
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
    const sent = await client.create(pods, held, { dryRun: true });
    const [before, after] = await cleaned({
      admission: "Webhook",
      options: { registries: await listing(registry) },
      ignore: (name) => name === `pods ${namespace}/held`,
      async given() {
        await client.create(nodes, aNode("amd").build());
        await client.create(nodes, aNode("arm").arm64().build());
        await makeDaemonSet("agent", reference);
        const spec = { mode: "Both", maxHold: "1h", unresolvable: "Closed" };
        await client.create(architecturePolicies, aDocument(architecturePolicies, "all", spec));
      },
      async works() {
        await becomes(client, nodes, "arm", tainted("supported-arch"));
        await eventually(async () => expect(await tolerationsOf("agent")).toHaveLength(2));
        await eventually(async () => {
          try {
            await client.create(pods, held);
          } catch (error) {
            if (!isApiError(error, "alreadyExists")) throw error;
          }
          const { spec } = await client.get(pods, { namespace, name: "held" });
          if (spec?.schedulingGates === undefined)
            await client.delete(pods, { namespace, name: "held" }, { gracePeriodSeconds: 0 });
          expect(spec?.schedulingGates).toEqual([{ name: ARCHITECTURE_GATE }]);
        });
      },
    });
    expect(after).toEqual(before);
    expect((await client.get(pods, { namespace, name: "held" })).spec).toEqual(sent.spec);
  });

  it("I-4 clean leaves nothing of footprints, and the agents run where they ran", async () => {
    const [before, after] = await cleaned({
      admission: "Webhook",
      async given() {
        for (const name of ["used", "idle"]) await client.create(nodes, aNode(name).build());
        await client.create(pods, aPod("web").in(namespace).labelled({ app: "web" }).on("used").build());
        await makeDaemonSet("agent");
        await client.create(workerPools, { metadata: { name: "pool" }, spec: POOL }, { namespace });
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
        for (const [name, spec] of Object.entries(specs)) {
          const node = { label: { key: `example.com/${name}` } };
          await client.create(nodeFootprints, aDocument(nodeFootprints, name, { workloads, node, ...spec }));
        }
      },
      async works() {
        await becomes(client, nodes, "used", { metadata: { labels: { "example.com/agent": "true" } } });
        const template = { spec: { nodeSelector: expect.anything() } };
        await becomes(client, daemonSets, `${namespace}/agent`, { spec: { template } });
        const held = { metadata: { finalizers: ["example.com/hold"] } };
        await becomes(client, workerPools, `${namespace}/pool`, held);
        await becomes(client, mutatingWebhookConfigurations, "berth-footprint", {});
        await eventually(async () =>
          expect((await client.list(secrets, { namespace: STATE })).items).toHaveLength(1),
        );
      },
    });
    expect(after).toEqual(before);
  });

  it("I-4 clean leaves nothing of WorkerPools, where the document is given", async () => {
    const [before, after] = await cleaned({
      config: `{apiVersion: berth.dev/v1alpha1, kind: WorkerPools, metadata: {name: pools}, spec: {allow: {images: [registry.test/], namespaces: [${namespace}]}}}`,
      given: () => client.create(workerPools, { metadata: { name: "pool" }, spec: POOL }, { namespace }),
      works: () => becomes(client, deployments, `${namespace}/pool-deployment`, {}),
    });
    expect(after).toEqual(before);
  });
});

describe("clean of a Fleet", () => {
  it("takes off the finalizers that would block each deletion, but not those of claims", async () => {
    const claim = "quota.compute.datumapis.com/claim-cleanup";
    const [workload, instance] = ["workload", "instance"].map(
      (it) => `compute.datumapis.com/${it}-controller`,
    );
    const spec = {
      runtime: {
        resources: { instanceType: "datumcloud/d1-standard-2" },
        sandbox: { containers: [{ name: "web", image: "registry.test/web:1" }] },
      },
      networkInterfaces: [{ network: { name: "default" } }],
    };
    const template = { spec };
    const scaleSettings = { minReplicas: 1 };
    const workloadRef = { name: "web", uid: "1" };
    const us = { cityCode: "DFW", placementName: "us", scaleSettings, template, workloadRef };
    const create = (resource: Resource, spec: object, name: string, ...finalizers: (string | undefined)[]) =>
      client.create(resource, { metadata: { name, finalizers }, spec } as KubeObject, { namespace });
    const placements = [{ name: "us", cityCodes: ["DFW"], scaleSettings }];
    await create(workloads, { template, placements }, "web", "example.com/other", workload);
    await create(workloadDeployments, us, "web-us", workload);
    await create(instances, spec, "web-us-0", instance, claim);
    const config = (mode: string): string =>
      `{apiVersion: berth.dev/v1alpha1, kind: Fleet, metadata: {name: default}, spec: {mode: ${mode}}}`;
    const files = { "cell.yaml": config("cell"), "single.yaml": config("single") };
    await using folder = await testFolder({ kubeconfig: cluster.kubeconfig(), ...files });
    const line = `clean --namespace ${STATE} --kubeconfig kubeconfig`;
    expect((await folder.berth(line)).stdout).toBe("There is nothing to clean.\n");
    expect((await folder.berth(`${line} --config cell.yaml`)).stdout).not.toContain("web:");
    const { code, stdout, stderr } = await folder.berth(`${line} --yes --config single.yaml`);
    expect([code, stderr]).toEqual([0, expect.stringContaining("1 Instance with a quota claim")]);
    expect(stdout).toBe(
      [
        `workloads.compute.datumapis.com ${namespace}/web: finalizer ${workload}: will be removed\n`,
        `workloaddeployments.compute.datumapis.com ${namespace}/web-us: finalizer ${workload}: will be removed\n`,
        `instances.compute.datumapis.com ${namespace}/web-us-0: finalizer ${instance}: will be removed\n`,
      ].join(""),
    );
    const left = await Promise.all(
      [workloads, workloadDeployments, instances].map((it) => client.list<KubeObject>(it)),
    );
    expect(left.flatMap(({ items }) => items.map(({ metadata }) => metadata?.finalizers ?? []))).toEqual([
      ["example.com/other"],
      [],
      [claim],
    ]);
  });
});

describe("S-7 a record that the node's kubelet has forged", () => {
  it("S-7 takes off no taint and no cordon that was never declared, unless a person says so", async () => {
    const since = "2026-01-01T00:00:00Z";
    const forged = { c: "gates", r: "cluster/network", since };
    const marks = { "taint/dedicated:NoSchedule": forged, unschedulable: forged };
    const record = JSON.stringify({ v: 1, by: "berth", marks });
    const victim = aNode("victim").annotated({ "berth.dev/marks": record }).build();
    const dedicated = { key: "dedicated", effect: "NoSchedule" } as const;
    await client.create(nodes, { ...victim, spec: { taints: [dedicated], unschedulable: true } });
    const signals = { conditions: [{ type: "example.com/Ready" }] };
    const spec = { taint: { key: "example.k8s.io/network" }, signals };
    await client.create(startupGates, aDocument(startupGates, "network", spec));
    const start = async (): Promise<AsyncDisposable> => {
      await using owned = new AsyncDisposableStack();
      const own = owned.use(cluster.connect());
      const options = { namespace: STATE, backfillAtStart: true, crdGraceMs: 0 };
      owned.use(await startBerth({ client: own, ...options }));
      return owned.move();
    };
    const others = async () => {
      const { taints = [], unschedulable } = (await client.get(nodes, { name: "victim" })).spec ?? {};
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
    const line = `clean --namespace ${STATE} --kubeconfig kubeconfig --yes`;
    const listed = await folder.berth(line);
    expect(listed.stdout).toMatch(/taint\/dedicated:NoSchedule +stays: PlaceNotDeclared/);
    expect(listed.stderr).toContain("--recorded");
    expect(await others()).toEqual(["dedicated", "unschedulable"]);
    expect((await folder.berth(`${line} --recorded`)).code).toBe(0);
    expect(await others()).toEqual([]);
  });
});
