/**
 * Descheduling where the whole of Kubernetes is at work: the Deployment controller makes pods, the scheduler binds them,
 * kwok runs them, and Berth moves them when a device leaves their node.
 */
import type { RunningBerth } from "@berth/cli";
import {
  customResourceDefinitions,
  type Deployment,
  defineResource,
  deployments,
  events,
  isApiError,
  jobs,
  type KubeObject,
  nodes,
  type ObjectMeta,
  type OwnerReference,
  type Pod,
  podDisruptionBudgets,
  pods,
  priorityClasses,
  replicaSets,
  statefulSets,
} from "@berth/kube";
import { DESCHEDULE_KEY, deschedulePolicies } from "@berth/placement";
import { aNode, aPod, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { hurriedClock } from "../packages/runtime/src/testing/hurried-clock.ts";
import { Fixture, metric } from "./fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";

const DEVICE = "example.com/usb";
const LABEL = "example.com/camera";
const RULE = `apiVersion: berth.dev/v1alpha1
kind: LabelRule
metadata: { name: camera }
spec:
  match: { all: [{ key: ${DEVICE} }] }
  labels: [{ key: ${LABEL} }]
  removalDelay: 0s
`;
const policy = (spec: string): string => `apiVersion: berth.dev/v1alpha1
kind: DeschedulePolicy
metadata: { name: default }
spec: ${spec}
`;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

class DescheduleFixture extends Fixture {
  /** A Berth with the rule and a policy of this spec. It evicts nothing in its first ten seconds: they pass faster. */
  async start(spec: string, pace = 4): Promise<RunningBerth> {
    const config = [await this.file("rule.yaml", RULE), await this.file("policy.yaml", policy(spec))];
    return this.run({}, { config, clock: hurriedClock(pace) });
  }

  /** Nodes with the device of one test would take the pods of the next. */
  protected override async clear(): Promise<void> {
    const { client } = this.cluster;
    const namespace = "default";
    for (const owners of [deployments, replicaSets, statefulSets, jobs])
      await client.deleteCollection<KubeObject>(owners, { namespace });
    await client.deleteCollection(podDisruptionBudgets, { namespace });
    await client.deleteCollection(deschedulePolicies, {});
    await client.deleteCollection(nodes, {});
    await patiently(async () => {
      await client.deleteCollection(pods, { namespace }, { gracePeriodSeconds: 0 });
      if ((await client.list(pods, { namespace })).items.length > 0) throw new Error("there are pods");
    });
  }
}

/** A node that kwok runs. */
async function addNode(name: string): Promise<void> {
  await cluster.client.create(nodes, aNode(name).fake().build());
  await eventually(async () => {
    const { spec } = await cluster.client.get(nodes, { name });
    expect(spec?.taints ?? []).toEqual([]);
  });
}

async function device(name: string, isThere: boolean): Promise<void> {
  const labels = { [DEVICE]: isThere ? "yes" : null };
  await cluster.client.patch(nodes, { name }, { type: "merge", body: { metadata: { labels } } });
}

interface DeployOptions {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly priorityClassName?: string;
}

/** A Deployment whose pods ask for the derived label. */
async function deploy(
  name: string,
  replicas: number,
  { annotations = {}, priorityClassName = "" }: DeployOptions = {},
): Promise<void> {
  const labels = { app: name };
  const { spec } = aPod(name)
    .selecting({ [LABEL]: "true" })
    .build();
  await cluster.client.create(
    deployments,
    {
      metadata: { name, namespace: "default" },
      spec: {
        replicas,
        selector: { matchLabels: labels },
        template: { metadata: { labels, annotations }, spec: { ...spec, priorityClassName } },
      },
    } as Deployment,
    { namespace: "default" },
  );
}

/** Kinds of other projects, and the kind of Kubernetes that their controllers make for the pods. */
const FOREIGN = [
  { group: "argoproj.io", version: "v1alpha1", kind: "Rollout", makes: replicaSets },
  { group: "leaderworkerset.x-k8s.io", version: "v1", kind: "LeaderWorkerSet", makes: statefulSets },
  { group: "jobset.x-k8s.io", version: "v1alpha2", kind: "JobSet", makes: jobs },
] as const;
type Foreign = Omit<(typeof FOREIGN)[number], "makes">;

/** Serves the kind, with any fields, and makes an object of it. @returns the reference to it. */
async function addObject(
  { group, version, kind }: { readonly [field in keyof Foreign]: string },
  metadata: ObjectMeta,
): Promise<OwnerReference> {
  const { client } = cluster;
  const { name = "" } = metadata;
  const plural = `${kind.toLowerCase()}s`;
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  await client.create(customResourceDefinitions, {
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { kind, plural },
      scope: "Namespaced",
      versions: [{ name: version, served: true, storage: true, schema }],
    },
  });
  const resource = defineResource({ group, version, plural, kind, namespaced: true });
  const made = await eventually(() => client.create(resource, { metadata }));
  return { apiVersion: `${group}/${version}`, kind, name, uid: made.metadata?.uid ?? "", controller: true };
}

/** Makes what has a pod that asks for the derived label. */
async function addOwner(makes: (typeof FOREIGN)[number]["makes"], metadata: ObjectMeta & { name: string }) {
  const labels = { app: metadata.name };
  const { spec } = aPod(metadata.name)
    .selecting({ [LABEL]: "true" })
    .build();
  const annotations = { "kwok.berth.dev/runs-on": "true" };
  const template = { metadata: { labels, annotations }, spec: { ...spec, restartPolicy: "Never" } };
  const replicated = {
    replicas: 1,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec },
  };
  const object = { metadata, spec: makes === jobs ? { template } : replicated } as KubeObject;
  return cluster.client.create<KubeObject>(makes, object);
}

/** Makes an object of the kind, and what its controller would make for it. */
async function addForeign({ makes, ...of }: (typeof FOREIGN)[number]): Promise<void> {
  const name = of.kind.toLowerCase();
  const owner = await addObject(of, { name, namespace: "default" });
  await addOwner(makes, { name, namespace: "default", ownerReferences: [owner] });
}

async function podsOf(app: string): Promise<readonly Pod[]> {
  return (await cluster.client.list(pods, { namespace: "default", labelSelector: `app=${app}` })).items;
}

async function eventsOf(pod: Pod | undefined, reason: string): Promise<readonly object[]> {
  const { items } = await cluster.client.list(events, { namespace: "default" });
  return items.filter((it) => it.reason === reason && it.regarding?.uid === pod?.metadata?.uid);
}

async function frozen(name: string): Promise<object | undefined> {
  const { status } = await cluster.client.get(deschedulePolicies, { name });
  return status?.conditions?.find(({ type }) => type === "EvictionsFrozen");
}

/** Where its Ready pods are, sorted; throws while there are others. */
async function placesOf(app: string): Promise<readonly string[]> {
  return (await podsOf(app))
    .map(({ metadata, spec, status }) => {
      const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
      if (metadata?.deletionTimestamp !== undefined || !isReady)
        throw new Error(`${metadata?.name} is not whole`);
      return spec?.nodeName ?? "";
    })
    .sort();
}

/** The Events of evictions of these pods. Berth writes them in the background, so a pod may have moved before. */
async function evictions(app: string): Promise<readonly string[]> {
  const { items } = await cluster.client.list(events, { namespace: "default" });
  const found = items.filter(
    ({ reason, regarding }) => reason === "PodDescheduled" && regarding?.name?.startsWith(`${app}-`),
  );
  return found.map(({ regarding, note }) => `${regarding?.name}: ${note}`);
}

it("D-C20 moves the pods of a Deployment to the node with the device, and leaves them where nothing else fits", async () => {
  for (const name of ["cam-1", "cam-2"]) await addNode(name);
  await device("cam-1", true);
  await using fixture = new DescheduleFixture(cluster, "deschedule");
  await fixture.start("{ for: 2s }");
  await deploy("viewer", 3);
  await patiently(async () => expect(await placesOf("viewer")).toEqual(["cam-1", "cam-1", "cam-1"]));
  await device("cam-2", true);
  await device("cam-1", false);
  await patiently(async () => expect(await placesOf("viewer")).toEqual(["cam-2", "cam-2", "cam-2"]));
  await patiently(async () => expect(await evictions("viewer")).toHaveLength(3));
  await device("cam-2", false);
  const [pod] = await podsOf("viewer");
  await patiently(async () => expect(await eventsOf(pod, "NoOtherNode")).toHaveLength(1));
  expect(await placesOf("viewer")).toEqual(["cam-2", "cam-2", "cam-2"]);
  expect(await evictions("viewer")).toHaveLength(3);
});

describe("a pod that may not go", () => {
  it("D-D20 waits for its PodDisruptionBudget with one Event, and goes when that allows it", async () => {
    const { client } = cluster;
    for (const name of ["pdb-1", "pdb-2"]) {
      await addNode(name);
      await device(name, true);
    }
    await using fixture = new DescheduleFixture(cluster, "deschedule");
    const berth = await fixture.start("{ for: 0s }");
    const of = { namespace: "default", name: "guarded" };
    await client.create(podDisruptionBudgets, {
      metadata: of,
      spec: { maxUnavailable: 0, selector: { matchLabels: { app: "guarded" } } },
    });
    await deploy("guarded", 1);
    await patiently(async () => expect(await placesOf("guarded")).toHaveLength(1));
    const [node = ""] = await placesOf("guarded");
    const [pod] = await podsOf("guarded");
    await device(node, false);
    await patiently(async () => expect(await eventsOf(pod, "DisruptionBudget")).toHaveLength(1));
    expect(await placesOf("guarded")).toEqual([node]);
    await client.patch(podDisruptionBudgets, of, { type: "merge", body: { spec: { maxUnavailable: 1 } } });
    const other = node === "pdb-1" ? "pdb-2" : "pdb-1";
    await patiently(async () => expect(await placesOf("guarded")).toEqual([other]));
    const tries = await metric(berth, "berth_evictions_refused_total", { reason: "DisruptionBudget" });
    expect(tries).toBeLessThanOrEqual(4);
  });

  it("D-G20 is evicted once under two policies, and stays with an annotation or a high priority", async () => {
    for (const name of ["two-1", "two-2"]) await addNode(name);
    await device("two-1", true);
    await using fixture = new DescheduleFixture(cluster, "deschedule");
    const spec = { for: "0s", priorityThreshold: { name: "spared" } };
    await cluster.client.create(priorityClasses, { metadata: { name: "spared" }, value: 1_000 });
    await fixture.start(JSON.stringify(spec));
    await cluster.client.create(deschedulePolicies, { metadata: { name: "second" }, spec });
    await deploy("both", 1);
    await deploy("kept", 1, { annotations: { [DESCHEDULE_KEY]: "ignore" } });
    await deploy("important", 1, { priorityClassName: "spared" });
    for (const app of ["both", "kept", "important"])
      await patiently(async () => expect(await placesOf(app)).toEqual(["two-1"]));
    await device("two-2", true);
    await device("two-1", false);
    await patiently(async () => expect(await placesOf("both")).toEqual(["two-2"]));
    await patiently(async () => expect(await evictions("both")).toHaveLength(1));
    for (const app of ["kept", "important"]) {
      expect(await evictions(app)).toHaveLength(0);
      expect(await placesOf(app)).toEqual(["two-1"]);
    }
  });

  it("D-G26 goes whatever owns its owner, which makes the pod again", async () => {
    for (const name of ["own-1", "own-2"]) await addNode(name);
    await device("own-1", true);
    await using fixture = new DescheduleFixture(cluster, "deschedule");
    await fixture.start("{ for: 0s }");
    await Promise.all(FOREIGN.map(addForeign));
    // Kueue's Workload belongs to what it admits, a Job or a pod.
    const namespace = "default";
    const { metadata = {} } = await addOwner(jobs, { name: "kueue-job", namespace });
    const job = { apiVersion: "batch/v1", kind: "Job", name: "kueue-job", uid: metadata.uid ?? "" };
    const workload = { group: "kueue.x-k8s.io", version: "v1beta1", kind: "Workload" };
    await addObject(workload, { name: "job", namespace, ownerReferences: [job] });
    const plain = aPod("kueue-pod").labelled({ app: "kueue-pod", "kueue.x-k8s.io/managed": "true" });
    await cluster.client.create(pods, plain.selecting({ [LABEL]: "true" }).build());
    const apps = [...FOREIGN.map(({ kind }) => kind.toLowerCase()), "kueue-job"];
    for (const app of [...apps, "kueue-pod"])
      await patiently(async () => expect(await placesOf(app)).toEqual(["own-1"]));
    await device("own-2", true);
    await device("own-1", false);
    for (const app of apps) await patiently(async () => expect(await evictions(app)).toHaveLength(1));
    // A Job waits for ten seconds before it makes the pod again.
    for (const app of ["rollout", "leaderworkerset"])
      await patiently(async () => expect(await placesOf(app)).toEqual(["own-2"]));
    expect(await placesOf("kueue-pod")).toEqual(["own-1"]);
  });

  it("D-G21 is forgotten with its node, which goes during the eviction", async () => {
    for (const name of ["gone-1", "gone-2"]) await addNode(name);
    await device("gone-1", true);
    await using fixture = new DescheduleFixture(cluster, "deschedule");
    const berth = await fixture.start("{ for: 0s, requireFit: False }");
    await deploy("lost", 2);
    await patiently(async () => expect(await placesOf("lost")).toEqual(["gone-1", "gone-1"]));
    await device("gone-1", false);
    await patiently(async () => expect(await evictions("lost")).toHaveLength(1));
    await cluster.client.delete(nodes, { name: "gone-1" });
    // The garbage collector of pods does this after 40 s.
    const onIt = { namespace: "default", fieldSelector: "spec.nodeName=gone-1" };
    await cluster.client.deleteCollection(pods, onIt, { gracePeriodSeconds: 0 });
    await device("gone-2", true);
    await patiently(async () => expect(await placesOf("lost")).toEqual(["gone-2", "gone-2"]));
    await patiently(async () => expect(await metric(berth, "berth_evictions_in_progress")).toBe(0));
    expect(await metric(berth, "berth_lost_pods")).toBe(0);
  });
});

describe("a label source that flaps", () => {
  it("D-E20 freezes evictions with one condition and one Event, and evicts nothing", async () => {
    const { client } = cluster;
    const names = Array.from({ length: 12 }, (_, at) => `flap-${at}`);
    await Promise.all(names.map(addNode));
    await Promise.all(names.map((name) => device(name, true)));
    await using fixture = new DescheduleFixture(cluster, "deschedule");
    const berth = await fixture.start("{ for: 1s, podSelector: { matchLabels: { app: none } } }", 1);
    await client.create(deschedulePolicies, { metadata: { name: "flaps" }, spec: { for: "1s" } });
    // The scheduler spreads the pods over the nodes that have the label by then.
    const labelSelector = `${LABEL}=true`;
    await patiently(async () => expect((await client.list(nodes, { labelSelector })).items).toHaveLength(12));
    await deploy("many", 24);
    await patiently(async () => expect(await placesOf("many")).toHaveLength(24));
    const half = names.slice(0, 8);
    for (let flap = 0; flap < 3; flap += 1) {
      await Promise.all(half.map((name) => device(name, false)));
      await patiently(async () => expect(await frozen("flaps")).toMatchObject({ status: "True" }));
      if (flap < 2) await Promise.all(half.map((name) => device(name, true)));
    }
    await patiently(async () => expect(await metric(berth, "berth_lost_pods")).toBeGreaterThan(9));
    expect(await evictions("many")).toHaveLength(0);
    const { items } = await client.list(events);
    const told = items.filter(
      ({ regarding, reason }) => regarding?.name === "flaps" && reason === "EvictionsFrozen",
    );
    expect(told.map(({ series }) => series?.count ?? 1)).toEqual([1]);
  });
});

describe("a policy that is about everything", () => {
  it.each([
    [{ keys: ["*"] }, false],
    [{ keys: ["*"], everything: true }, true],
    [{ keys: ["*"], podSelector: { matchLabels: { app: "a" } } }, true],
    [{ requireFit: true }, true],
    [{ requireFit: "PendingOk" }, true],
    [{ requireFit: "Perhaps" }, false],
  ])("D-G22 %j is taken by the API server: %s", async (spec, isTaken) => {
    const made = cluster.client.create(
      deschedulePolicies,
      { metadata: { generateName: "any-" }, spec },
      { dryRun: true },
    );
    const answer = await made.then(
      () => "taken",
      (error: unknown) => (isApiError(error, "invalid") ? "refused" : error),
    );
    expect(answer).toBe(isTaken ? "taken" : "refused");
  });
});
