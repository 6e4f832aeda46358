/**
 * Startup gates where the whole of Kubernetes is at work: the DaemonSet controller makes pods, the scheduler binds them,
 * kwok runs them. Shows that a held node keeps workloads away, and neither its own agents nor Berth.
 */
import { runCli, startBerth } from "@berth/cli";
import {
  type Deployment,
  daemonSets,
  deployments,
  type KubeObject,
  namespaces,
  nodes,
  pods,
  serviceAccounts,
} from "@berth/kube";
import { originalGate, startupGates } from "@berth/placement";
import { aNode, aPod, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BERTH } from "./fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { hasTaint, stateOf } from "./gate-fixture.ts";
import { patiently } from "./patience.ts";

const GO = "example.com/go";

let cluster: TestCluster;
let owned: AsyncDisposableStack;
beforeAll(async () => {
  owned = new AsyncDisposableStack();
  cluster = await sharedFullCluster();
  await cluster.client.create(startupGates, {
    apiVersion: "berth.dev/v1alpha1",
    kind: "StartupGate",
    metadata: { name: "net" },
    // kwok makes pods ready at once: the annotation is what the test decides about.
    spec: { stableFor: "1s", signals: { pods: [{}], annotations: [{ key: GO }] } },
  });
  const client = owned.use(cluster.connect({ userAgent: `${BERTH}test`, fieldManager: "berth" }));
  owned.use(await startBerth({ client }));
});
afterAll(() => owned.disposeAsync());

const read = (name: string) => cluster.client.get(nodes, { name });

/** Resolves once the node is held, Ready, and has no other taint. */
async function held(name: string): Promise<void> {
  await patiently(async () => {
    const { spec } = await read(name);
    expect(spec?.taints?.map(({ key }) => key)).toEqual([originalGate.taint.key]);
  });
}

/** The pods of a namespace, with the nodes that they are bound to. */
async function placed(namespace: string): Promise<readonly string[]> {
  const { items } = await cluster.client.list(pods, { namespace });
  const living = items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
  return living.map(({ spec }) => spec?.nodeName ?? "").toSorted();
}

describe("a held node", () => {
  it("gets the pods of its DaemonSets, and a workload only when it is let go", async () => {
    const { taint, podLabels } = originalGate;
    await cluster.client.create(daemonSets, {
      metadata: { name: "node-setup", namespace: "kube-system" },
      spec: {
        selector: { matchLabels: podLabels },
        template: {
          metadata: { labels: podLabels },
          spec: {
            tolerations: [{ key: taint.key, operator: "Exists", effect: taint.effect }],
            containers: [{ name: "main", image: "registry.test/setup:1" }],
          },
        },
      },
    });
    await cluster.client.create(nodes, aNode("n1").fake().build());
    await held("n1");
    await cluster.client.create(pods, aPod("workload").build(), { namespace: "default" });
    const workload = () => cluster.client.get(pods, { namespace: "default", name: "workload" });
    await patiently(async () => {
      const condition = (await workload()).status?.conditions?.find(({ type }) => type === "PodScheduled");
      expect(condition).toMatchObject({ status: "False", reason: "Unschedulable" });
      expect(condition?.message).toMatch(/untolerated taint/);
    });
    await patiently(async () => {
      const { items } = await cluster.client.list(pods, { namespace: "kube-system" });
      const conditions = items.flatMap(({ spec, status }) =>
        spec?.nodeName === "n1" ? (status?.conditions ?? []) : [],
      );
      expect(conditions.find(({ type }) => type === "Ready")).toMatchObject({ status: "True" });
    });
    expect((await workload()).spec?.nodeName).toBeUndefined();
    const body = { metadata: { annotations: { [GO]: "true" } } };
    await cluster.client.patch(nodes, { name: "n1" }, { type: "merge", body });
    await patiently(async () => expect((await workload()).spec?.nodeName).toBe("n1"));
    const after = await read("n1");
    expect(hasTaint(after)).toBe(false);
    expect(stateOf(after, "net")).toMatchObject({ state: "released", why: "Released" });
    await cluster.client.delete(nodes, { name: "n1" });
  });

  it("N-B3 takes Berth itself, as it is installed, also when every node is held and Berth was killed", async () => {
    for (const name of ["n2", "n3"]) {
      await cluster.client.create(nodes, aNode(name).fake().build());
      await held(name);
    }
    const { namespace, deployment, account } = await installed();
    await cluster.client.apply(namespaces, { metadata: { name: namespace } });
    await cluster.client.create(serviceAccounts, account);
    await cluster.client.create(deployments, deployment);
    // Two replicas.
    const onHeld = Array.from({ length: 2 }, () => expect.stringMatching(/^n[23]$/) as string);
    await patiently(async () => expect(await placed(namespace)).toEqual(onHeld));
    const { items } = await cluster.client.list(pods, { namespace });
    const first = items[0]?.metadata?.name ?? "";
    await cluster.client.delete(pods, { namespace, name: first }, { gracePeriodSeconds: 0 });
    await patiently(async () => {
      const names = (await cluster.client.list(pods, { namespace })).items.map(
        ({ metadata }) => metadata?.name,
      );
      expect(names).not.toContain(first);
      expect(await placed(namespace)).toEqual(onHeld);
    });
    for (const name of ["n2", "n3"]) expect(hasTaint(await read(name))).toBe(true);
  });
});

interface Installed {
  readonly namespace: string;
  readonly deployment: Deployment;
  readonly account: KubeObject;
}

/** What `berth manifests` prints, of which the rest is of no matter to where its pods run. */
async function installed(): Promise<Installed> {
  let printed = "";
  const stdout = { isTerminal: false, columns: undefined, write: (text: string) => void (printed += text) };
  const deps = {
    environment: {},
    folder: process.cwd(),
    home: undefined,
    stdout,
    stderr: stdout,
    signal: new AbortController().signal,
    self: "berth",
  };
  const namespace = "berth-system";
  await runCli(["manifests", "--image", "registry.test/berth:1", "-n", namespace, "-o", "json"], deps);
  const { items } = JSON.parse(printed) as { readonly items: readonly KubeObject[] };
  const ofKind = (wanted: string): KubeObject => {
    const found = items.find(({ kind }) => kind === wanted);
    if (found === undefined) throw new Error(`berth manifests prints no ${wanted}:\n${printed}`);
    return found;
  };
  return { namespace, deployment: ofKind("Deployment"), account: ofKind("ServiceAccount") };
}
