/** Architecture policies in a running Berth, on a real API server and a real registry. Nothing schedules pods here. */

import { admissionServerSpec } from "@berth/host";
import {
  customResourceDefinitions,
  type DaemonSet,
  daemonSets,
  isApiError,
  mutatingWebhookConfigurations,
  type Node,
  namespaces,
  nodes,
  type Pod,
  pods,
} from "@berth/kube";
import {
  ARCHITECTURE_GATE,
  type ArchitecturePolicy,
  architecturePolicies,
  BOOTSTRAP_ANNOTATION,
} from "@berth/placement";
import {
  aNode,
  anImage,
  aPod,
  eventually,
  findFreePort,
  type PodBuilder,
  sharedTestCluster,
  startRegistry,
  type TestCluster,
  type TestRegistry,
} from "@berth/testcluster";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "./composition.ts";
import { crds } from "./kinds.ts";
import { listing } from "./testing/registries.ts";

const NAMESPACE = "berth-system";
const TAINT = "supported-arch";

let cluster: TestCluster;
let registry: TestRegistry;
const images = { both: "", amd: "", arm: "" };

beforeAll(async () => {
  [cluster, registry] = await Promise.all([sharedTestCluster(), startRegistry()]);
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(architecturePolicies));
  await client.create(namespaces, { metadata: { name: NAMESPACE } });
  const push = async (name: string, ...platforms: readonly string[]): Promise<string> =>
    (await registry.push(anImage(name).platforms(...platforms))).reference;
  images.both = await push("team/both:1", "linux/amd64", "linux/arm64");
  images.amd = await push("team/amd:1", "linux/amd64");
  images.arm = await push("team/arm:1", "linux/arm64");
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
});
afterEach(async () => {
  const { client } = cluster;
  await client.deleteCollection(architecturePolicies, {});
  await client.deleteCollection(mutatingWebhookConfigurations, {});
  await client.deleteCollection(pods, { namespace: "default" });
  await client.deleteCollection(daemonSets, { namespace: "default" });
  await client.deleteCollection(nodes, {});
});

interface RunningReplica extends AsyncDisposable {
  /** Objects that an informer of it holds. */
  known(informer: "unscheduled-pods" | "daemonsets"): Promise<number>;
}

/** A Berth that answers the API server at a port of this machine, or is not asked at all. */
async function aBerth(isAsked: boolean, replica?: string): Promise<RunningReplica> {
  const port = await findFreePort();
  const spec = admissionServerSpec.parse({
    mode: isAsked ? "Auto" : "Off",
    bindAddress: `127.0.0.1:${port}`,
    url: `https://127.0.0.1:${port}`,
  });
  const client = cluster.connect();
  const berth = await startBerth({
    client,
    namespace: NAMESPACE,
    registries: await listing(registry),
    // The CRDs are as young as the test: without it a policy deleted while no Berth runs is not taken for deleted yet.
    crdGraceMs: 0,
    admission: { spec, namespace: NAMESPACE },
    ...(replica !== undefined && { identity: replica, lease: { namespace: NAMESPACE, name: "berth" } }),
  });
  return {
    async known(informer) {
      const line = new RegExp(`^berth_informer_objects\\{.*informer="${informer}".*\\} (\\d+)$`, "m");
      return Number(line.exec((await berth.metrics.expose()).body)?.[1]);
    },
    async [Symbol.asyncDispose]() {
      await berth[Symbol.asyncDispose]();
      await client[Symbol.asyncDispose]();
    },
  };
}

async function aPolicy(spec: object, name = "all"): Promise<void> {
  await cluster.client.create(architecturePolicies, {
    apiVersion: "berth.dev/v1alpha1",
    kind: "ArchitecturePolicy",
    metadata: { name },
    spec,
  });
}

async function statusOf(name = "all"): Promise<NonNullable<ArchitecturePolicy["status"]>> {
  return (await cluster.client.get(architecturePolicies, { name })).status ?? {};
}

const create = (pod: PodBuilder): Promise<Pod> =>
  cluster.client.create(pods, pod.in("default").build(), { namespace: "default" });
const podNamed = (name: string): Promise<Pod> => cluster.client.get(pods, { namespace: "default", name });

async function taintsOf(name: string): Promise<readonly string[]> {
  const node: Node = await cluster.client.get(nodes, { name });
  const taints = (node.spec?.taints ?? []).filter(({ key }) => !key.startsWith("node.kubernetes.io/"));
  return taints.map(({ key, value, effect }) => `${key}=${value}:${effect}`);
}

function architecturesOf({ spec }: Pod): readonly string[] | undefined {
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const all = required?.nodeSelectorTerms.flatMap(({ matchExpressions = [] }) => matchExpressions);
  return all?.find(({ key }) => key === "kubernetes.io/arch")?.values;
}

function tolerationsOf(spec: Pod["spec"]): readonly object[] {
  return (spec?.tolerations ?? []).filter(({ key = "" }) => key === TAINT);
}

const gatesOf = ({ spec }: Pod): readonly string[] => (spec?.schedulingGates ?? []).map(({ name }) => name);

const tolerates = (...values: readonly string[]): readonly object[] =>
  values.map((value) => ({ key: TAINT, value, effect: "NoSchedule" }));

function aDaemonSet(image: string): DaemonSet {
  const labels = { app: "agent" };
  const spec = { containers: [{ name: "main", image }] };
  return {
    metadata: { name: "agent", namespace: "default" },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

describe("a policy that taints", () => {
  it("A-B7 has pods and DaemonSets tolerate its taint before any node gets it, and takes it off when it goes", async () => {
    const { client } = cluster;
    await using _berth = await aBerth(false);
    await client.create(nodes, aNode("node-1").arm64().build());
    await client.create(daemonSets, aDaemonSet(images.both), { namespace: "default" });
    await create(aPod("waits").image(images.amd));
    await aPolicy({ mode: "Taint", bootstrap: "Confirm" });
    await eventually(async () => {
      const { phase, uncovered, conditions } = await statusOf();
      expect([phase, uncovered]).toEqual(["Bootstrapping", 0]);
      expect(conditions).toContainEqual(expect.objectContaining({ reason: "ConfirmationRequired" }));
    });
    expect(await taintsOf("node-1")).toEqual([]);
    expect(tolerationsOf((await podNamed("waits")).spec)).toEqual(tolerates("amd64"));
    const { spec } = await client.get(daemonSets, { namespace: "default", name: "agent" });
    expect(tolerationsOf(spec?.template.spec)).toEqual(tolerates("amd64", "arm64"));
    const body = { metadata: { annotations: { [BOOTSTRAP_ANNOTATION]: "true" } } };
    await client.patch(architecturePolicies, { name: "all" }, { type: "merge", body });
    await eventually(async () => expect(await taintsOf("node-1")).toEqual([`${TAINT}=arm64:NoSchedule`]));
    await eventually(async () =>
      expect(await statusOf()).toMatchObject({ phase: "Tainting", taintedNodes: 1, uncovered: 0 }),
    );
    await client.delete(architecturePolicies, { name: "all" });
    await eventually(async () => expect(await taintsOf("node-1")).toEqual([]));
  });

  it("is brought to its end by a replica that takes over, whatever was gone before it did", async () => {
    const { client } = cluster;
    await client.create(nodes, aNode("node-1").build());
    await client.create(daemonSets, aDaemonSet("127.0.0.1:1/team/none:1"), { namespace: "default" });
    await create(aPod("gone-before").image(images.amd));
    await using first = await aBerth(false, "first");
    await aPolicy({ mode: "Taint" });
    await eventually(async () => expect(await statusOf()).toMatchObject({ uncovered: 1 }));
    await using second = await aBerth(false, "second");
    await eventually(async () => {
      expect([await second.known("unscheduled-pods"), await second.known("daemonsets")]).toEqual([1, 1]);
    });
    await discard("gone-before");
    await eventually(async () => expect(await second.known("unscheduled-pods")).toBe(0));
    await first[Symbol.asyncDispose]();
    await client.delete(daemonSets, { namespace: "default", name: "agent" });
    await eventually(async () => expect(await taintsOf("node-1")).toEqual([`${TAINT}=amd64:NoSchedule`]));
  });

  it("S-1 has the images of stored pods looked up by each replica, for each answers reviews", async () => {
    await aPolicy({ mode: "Taint" });
    await using first = await aBerth(false, "first");
    await using second = await aBerth(false, "second");
    for (const berth of [first, second])
      await eventually(async () => expect(await berth.known("unscheduled-pods")).toBe(0));
    const { reference, repository } = await registry.push(anImage("team/each:1").platforms("linux/amd64"));
    const mark = registry.requests.mark();
    await create(aPod("each").image(reference));
    await eventually(() =>
      expect(registry.requests.countSince(mark, { repository, kind: "manifest" })).toBe(2),
    );
  });

  it("A-P10 sees to pods of kube-system, about which the API server does not ask", async () => {
    await using _berth = await aBerth(true);
    await aPolicy({ mode: "Taint" });
    const namespace = "kube-system";
    const { client } = cluster;
    await client.create(pods, aPod("dns").in(namespace).image(images.arm).build(), { namespace });
    await eventually(async () => {
      const { spec } = await client.get(pods, { namespace, name: "dns" });
      expect(tolerationsOf(spec)).toEqual(tolerates("arm64"));
    });
    await client.delete(pods, { namespace, name: "dns" }, { gracePeriodSeconds: 0 });
  });

  it("A-P9 taints nodes that come later, and puts back what was taken off", async () => {
    const { client } = cluster;
    await using _berth = await aBerth(false);
    await client.create(nodes, aNode("node-1").build());
    await aPolicy({ mode: "Taint" });
    await eventually(async () => expect(await taintsOf("node-1")).toEqual([`${TAINT}=amd64:NoSchedule`]));
    await client.create(nodes, aNode("node-2").arm64().build());
    await eventually(async () => expect(await taintsOf("node-2")).toEqual([`${TAINT}=arm64:NoSchedule`]));
    await client.patch(nodes, { name: "node-2" }, { type: "merge", body: { spec: { taints: null } } });
    await eventually(async () => expect(await taintsOf("node-2")).toEqual([`${TAINT}=arm64:NoSchedule`]));
  });
});

describe("a policy that narrows", () => {
  it("A-B11 holds a pod whose images are not known, and narrows it in the patch that lets it go", async () => {
    await using _berth = await aBerth(true);
    await aPolicy({ mode: "Affinity", maxHold: "5m" });
    await eventually(async () => expect((await statusOf()).conditions).toContainEqual(ready("Admission")));
    // One that can never be read shows that the API server asks: a pod that is let in before has its images looked up.
    await held(() => create(aPod("unread").image("127.0.0.1:1/team/none:1")));
    const { reference } = await registry.push(anImage("team/new:1").platforms("linux/arm64"));
    expect(gatesOf(await create(aPod("first").image(reference)))).toEqual([ARCHITECTURE_GATE]);
    await eventually(async () => {
      const pod = await podNamed("first");
      expect([gatesOf(pod), architecturesOf(pod)]).toEqual([[], ["arm64"]]);
    });
    // All is known now: it comes narrowed, and is never held.
    const second = await create(aPod("second").image(reference));
    expect([gatesOf(second), architecturesOf(second)]).toEqual([[], ["arm64"]]);
  });

  it("A-B1 refuses a pod that can run nowhere, and names the containers", async () => {
    await using _berth = await aBerth(true);
    await aPolicy({ mode: "Affinity", maxHold: "5m" });
    // The first that Berth is asked about has the images looked up.
    const nowhere = aPod("nowhere").image(images.amd).container("sidecar", images.arm);
    await eventually(async () => {
      const refusal = await create(nowhere).catch((error: unknown) => error);
      if (!isApiError(refusal)) await discard("nowhere");
      expect(isApiError(refusal) && refusal.message).toMatch(/container main .* container sidecar /);
    });
  });

  it("lets the pods go that it holds when it is deleted, also when that was while nobody ran", async () => {
    const { client } = cluster;
    await registry.stop();
    {
      await using _berth = await aBerth(true);
      await aPolicy({ mode: "Affinity", maxHold: "1h" });
      await held(() => create(aPod("held-1").image(`${registry.host}/team/none:1`)));
      await held(() => create(aPod("held-2").image(`${registry.host}/team/none:2`)));
    }
    await client.delete(architecturePolicies, { name: "all" });
    await using _berth = await aBerth(false);
    await eventually(async () => {
      expect(gatesOf(await podNamed("held-1"))).toEqual([]);
      expect(gatesOf(await podNamed("held-2"))).toEqual([]);
    });
    await registry.start();
  });
});

const ready = (type: string): object => expect.objectContaining({ type, status: "True" }) as object;

async function discard(name: string): Promise<void> {
  await cluster.client.delete(pods, { namespace: "default", name }, { gracePeriodSeconds: 0 });
}

/** Until the API server asks Berth, a pod is let in as it is: then it is made anew. */
async function held(make: () => Promise<Pod>): Promise<void> {
  await eventually(async () => {
    const pod = await make();
    if (gatesOf(pod).includes(ARCHITECTURE_GATE)) return;
    const { name = "" } = pod.metadata ?? {};
    await discard(name);
    throw new Error(`${name} is not held`);
  });
}
