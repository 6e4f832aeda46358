/** A footprint that comes to set another label, with the controller of DaemonSets: where the agent runs meanwhile. */
import { customResourceDefinitions, type DaemonSet, daemonSets, nodes, pods } from "@berth/kube";
import { crds, nodeFootprints } from "@berth/placement";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";

const AGENT = { namespace: "default", name: "agent" };
const OLD = "example.com/old";
const NEW = "example.com/new";
const NODES = ["n1", "n2", "n3"];

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster({ with: ["controller-manager"] });
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(nodeFootprints));
});
afterEach(async () => {
  const { client } = cluster;
  const scope = { namespace: "default" };
  await client.deleteCollection(nodeFootprints, {});
  await client.deleteCollection(daemonSets, scope, { propagationPolicy: "Background" });
  await client.deleteCollection(pods, scope, { gracePeriodSeconds: 0 });
  await client.deleteCollection(nodes, {});
});

async function aBerth(): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const client = stack.use(cluster.connect({ userAgent: "berth/test", fieldManager: "berth" }));
  stack.use(await startBerth({ client }));
  return stack.move();
}

/** Three nodes with pods that need the agent, one without, and an agent that follows the old label. */
async function aStage(nodeSelector: Readonly<Record<string, string>>): Promise<void> {
  const { client } = cluster;
  for (const name of [...NODES, "idle"]) await client.create(nodes, aNode(name).build());
  for (const name of NODES) await use(name);
  const labels = { app: "agent" };
  const containers = [{ name: "main", image: "registry.test/agent:1" }];
  const spec = { containers, nodeSelector, priorityClassName: "system-node-critical" };
  await client.create(daemonSets, {
    metadata: AGENT,
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  });
  await client.create(nodeFootprints, {
    apiVersion: "berth.dev/v1alpha1",
    kind: "NodeFootprint",
    metadata: { name: "agent" },
    spec: {
      workloads: [{ podSelector: { matchLabels: { app: "web" } } }],
      node: { label: { key: OLD }, foreign: "Report" },
      agent: { daemonSet: AGENT, nodeSelector: "Manage" },
    },
  });
}

async function use(node: string): Promise<void> {
  const pod = aPod(`on-${node}`).labelled({ app: "web" }).on(node).build();
  await cluster.client.create(pods, pod, { namespace: "default" });
}

const relabel = (key: string): Promise<unknown> =>
  cluster.client.patch(
    nodeFootprints,
    { name: "agent" },
    { type: "merge", body: { spec: { node: { label: { key } } } } },
  );

const labelByHand = (name: string, value: string | null): Promise<unknown> =>
  cluster.client.patch(nodes, { name }, { type: "merge", body: { metadata: { labels: { [NEW]: value } } } });

async function pending(): Promise<number | undefined> {
  return (await cluster.client.get(nodeFootprints, { name: "agent" })).status?.nodes?.pending;
}

const readAgent = (): Promise<DaemonSet> => cluster.client.get(daemonSets, AGENT);

const selector = async (): Promise<unknown> => (await readAgent()).spec?.template.spec?.nodeSelector;

/** On how many nodes the controller wants the agent, by the template as it is. */
async function wantedOn(): Promise<number | undefined> {
  const { metadata, status } = await readAgent();
  return status?.observedGeneration === metadata?.generation ? status?.desiredNumberScheduled : undefined;
}

/** The keys of these two that stand on a node. */
async function labelsOf(name: string): Promise<readonly string[]> {
  const { metadata } = await cluster.client.get(nodes, { name });
  return [OLD, NEW].filter((key) => metadata?.labels?.[key] === "true");
}

async function placed(): Promise<object | undefined> {
  const { status } = await cluster.client.get(nodeFootprints, { name: "agent" });
  return status?.conditions?.find(({ type }) => type === "AgentPlaced");
}

/** On how many nodes the controller has wanted the agent since, at the least. */
async function watchWanted(): Promise<AsyncDisposable & { readonly least: () => number }> {
  const { client } = cluster;
  const { metadata } = await client.list(daemonSets, { namespace: "default" });
  const stream = await client.watch(daemonSets, {
    namespace: "default",
    resourceVersion: metadata.resourceVersion ?? "",
  });
  let least = Number.POSITIVE_INFINITY;
  const ended = (async () => {
    for await (const event of stream)
      if (event.type === "MODIFIED")
        least = Math.min(least, event.object.status?.desiredNumberScheduled ?? least);
  })();
  return {
    least: () => least,
    async [Symbol.asyncDispose]() {
      await stream[Symbol.asyncDispose]();
      await ended.catch(() => undefined);
    },
  };
}

describe("a footprint that comes to set another label", () => {
  it("has its agent follow where Berth had it ask for the old one, which leaves no node that needs it", async () => {
    await using _berth = await aBerth();
    await aStage({});
    await eventually(async () => {
      expect(await selector()).toEqual({ [OLD]: "true" });
      expect(await wantedOn()).toBe(3);
    });
    await using wanted = await watchWanted();
    // Somebody else's value, which is left: this node cannot get the new label.
    await labelByHand("n3", "theirs");
    await relabel(NEW);
    await eventually(async () => {
      for (const name of ["n1", "n2"]) expect(await labelsOf(name)).toEqual([OLD, NEW]);
      expect(await pending()).toBe(1);
    });
    expect(await selector()).toEqual({ [OLD]: "true" });
    await labelByHand("n3", null);
    await eventually(async () => {
      expect(await selector()).toEqual({ [NEW]: "true" });
      expect(await wantedOn()).toBe(3);
    });
    for (const name of NODES) await eventually(async () => expect(await labelsOf(name)).toEqual([NEW]));
    await eventually(async () => expect(await placed()).toMatchObject({ status: "True" }));
    expect(wanted.least()).toBe(3);
  });

  it("leaves an old one that somebody else has put there, says so, and lets nodes keep it until it is gone", async () => {
    await using _berth = await aBerth();
    await aStage({ [OLD]: "true" });
    await eventually(async () => expect(await wantedOn()).toBe(3));
    await using wanted = await watchWanted();
    await relabel(NEW);
    await eventually(async () => {
      expect(await selector()).toEqual({ [OLD]: "true", [NEW]: "true" });
      expect(await placed()).toMatchObject({
        status: "False",
        reason: "AgentUnschedulable",
        message: expect.stringContaining(`take ${OLD} off its node selector`) as string,
      });
    });
    for (const name of NODES) expect(await labelsOf(name)).toEqual([OLD, NEW]);
    const spec = { template: { spec: { nodeSelector: { [OLD]: null } } } };
    await cluster.client.patch(daemonSets, AGENT, { type: "merge", body: { spec } });
    for (const name of NODES) await eventually(async () => expect(await labelsOf(name)).toEqual([NEW]));
    await eventually(async () => expect(await placed()).toMatchObject({ status: "True" }));
    expect(await wantedOn()).toBe(3);
    expect(wanted.least()).toBe(3);
  });
});
