/** Node footprints and WorkerPools in a running Berth, on a real API server. Nothing schedules pods here. */

import { admissionServerSpec } from "@berth/host";
import {
  type DaemonSet,
  daemonSets,
  deployments,
  isApiError,
  mutatingWebhookConfigurations,
  nodes,
  type Pod,
  pods,
} from "@berth/kube";
import { type NodeFootprint, nodeFootprints, type WorkerPool, workerPools } from "@berth/placement";
import { aNode, aPod, eventually, findFreePort, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { testFolder } from "../testing/harness.ts";
import { footprintCluster, writeFootprint } from "./testing/footprint-cluster.ts";

const NAMESPACE = "berth-system";
const LABEL = "footprint.berth.dev/agent";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
});
afterEach(async () => {
  const { client } = cluster;
  await client.deleteCollection(nodeFootprints, {});
  await client.deleteCollection(mutatingWebhookConfigurations, {});
  const scope = { namespace: "default" };
  await client.deleteCollection(pods, scope, { gracePeriodSeconds: 0 });
  await client.deleteCollection(daemonSets, scope);
  await client.deleteCollection(deployments, scope);
  await client.deleteCollection(nodes, {});
});

/** @param config documents of a file, if any. */
async function aBerth(config = "", isAsked = false): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const port = await findFreePort();
  const spec = admissionServerSpec.parse({
    mode: isAsked ? "Auto" : "Off",
    bindAddress: `127.0.0.1:${port}`,
    url: `https://127.0.0.1:${port}`,
  });
  const folder = stack.use(await testFolder({ "berth.yaml": config }));
  const client = stack.use(cluster.connect());
  stack.use(
    await startBerth({
      client,
      namespace: NAMESPACE,
      admission: { spec, namespace: NAMESPACE },
      config: [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }],
    }),
  );
  return stack.move();
}

async function aFootprint(spec: object): Promise<void> {
  await writeFootprint(cluster, "agent", spec);
}

const LOG = { preset: "log", workloads: [{ podSelector: { matchLabels: { logs: "yes" } } }] };

async function statusOf(): Promise<NonNullable<NodeFootprint["status"]>> {
  return (await cluster.client.get(nodeFootprints, { name: "agent" })).status ?? {};
}

async function bound(name: string, node: string): Promise<void> {
  const pod = aPod(name).labelled({ logs: "yes" }).on(node);
  await cluster.client.create(pods, pod.build(), { namespace: "default" });
}

const removePod = (name: string): Promise<void> =>
  cluster.client.delete(pods, { namespace: "default", name }, { gracePeriodSeconds: 0 });

/** The label's value, and the names of the claims. */
async function marksOf(name: string): Promise<readonly (string | undefined)[]> {
  const { metadata } = await cluster.client.get(nodes, { name });
  const claims = Object.keys(metadata?.annotations ?? {}).filter((key) => key.startsWith(`${LABEL}_`));
  return [metadata?.labels?.[LABEL], ...claims.map((key) => key.slice(LABEL.length + 1))];
}

function agent(): DaemonSet {
  const labels = { app: "agent" };
  return {
    metadata: { name: "agent", namespace: "default" },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: "main", image: "registry.test/agent:1" }] },
      },
    },
  };
}

describe("a footprint of the cluster", () => {
  it("marks nodes while pods need the agent, says how many, and takes its marks along when it goes", async () => {
    const { client } = cluster;
    await using _berth = await aBerth();
    await client.create(nodes, aNode("node-1").build());
    await client.create(nodes, aNode("node-2").build());
    await bound("one", "node-1");
    await aFootprint({ ...LOG, release: { delay: "0s" } });
    await eventually(async () => expect(await marksOf("node-1")).toEqual(["true", "default"]));
    await bound("two", "node-2");
    await eventually(async () => expect(await marksOf("node-2")).toEqual(["true", "default"]));
    await eventually(async () =>
      expect(await statusOf()).toMatchObject({ nodes: { labelled: 2, pending: 0, unknown: 0 }, claims: 2 }),
    );
    await removePod("two");
    await eventually(async () => expect(await marksOf("node-2")).toEqual([undefined]));
    await eventually(async () => {
      const { nodes: counts, conditions } = await statusOf();
      expect(counts?.labelled).toBe(1);
      expect(conditions).toContainEqual(
        expect.objectContaining({ type: "Ready", status: "True", reason: "FootprintInForce" }),
      );
    });
    await client.delete(nodeFootprints, { name: "agent" });
    await eventually(async () => expect(await marksOf("node-1")).toEqual([undefined]));
  });

  it("F-B2 lets nodes go whose last pod went while nobody ran", async () => {
    const { client } = cluster;
    await client.create(nodes, aNode("node-1").build());
    await bound("one", "node-1");
    await aFootprint({ ...LOG, release: { delay: "0s" } });
    {
      await using _berth = await aBerth();
      await eventually(async () => expect(await marksOf("node-1")).toEqual(["true", "default"]));
    }
    await removePod("one");
    await using _berth = await aBerth();
    await eventually(async () => expect(await marksOf("node-1")).toEqual([undefined]));
  });

  it("F-E14 has the DaemonSet follow once every node that needs it is labelled, and counts where it is ready", async () => {
    const { client } = cluster;
    await using _berth = await aBerth();
    await client.create(daemonSets, agent(), { namespace: "default" });
    await client.create(nodes, aNode("node-1").build());
    await bound("one", "node-1");
    const of = { namespace: "default", name: "agent" };
    await aFootprint({ ...LOG, agent: { daemonSet: of, nodeSelector: "Manage" } });
    await eventually(async () => {
      const { spec } = await client.get(daemonSets, of);
      expect(spec?.template.spec?.nodeSelector).toEqual({ [LABEL]: "true" });
    });
    expect(await marksOf("node-1")).toEqual(["true", "default"]);
    await eventually(async () =>
      expect(await statusOf()).toMatchObject({ nodes: { agentReady: 0, agentUnschedulable: 0 } }),
    );
    const scheduled = { currentNumberScheduled: 1, desiredNumberScheduled: 1, numberMisscheduled: 0 };
    const body = { status: { ...scheduled, numberReady: 1 } };
    await client.patch(daemonSets, of, { type: "merge", body }, { subresource: "status" });
    await eventually(async () => expect((await statusOf()).nodes?.agentReady).toBe(1));
  });

  it("F-B8 says on which node the agent cannot run, and why, and that it can again", async () => {
    const { client } = cluster;
    await using _berth = await aBerth();
    await client.create(daemonSets, agent(), { namespace: "default" });
    const taint = { key: "example.com/microvm", value: "true", effect: "NoSchedule" };
    const tainted = aNode("node-1").build();
    await client.create(nodes, { ...tainted, spec: { ...tainted.spec, taints: [taint] } });
    await bound("one", "node-1");
    await aFootprint({ ...LOG, agent: { daemonSet: { namespace: "default", name: "agent" } } });
    const placed = async (): Promise<object | undefined> =>
      (await statusOf()).conditions?.find(({ type }) => type === "AgentPlaced");
    await eventually(async () =>
      expect(await placed()).toMatchObject({
        status: "False",
        reason: "AgentUnschedulable",
        message: expect.stringMatching(/node-1.*example\.com\/microvm=true:NoSchedule/) as string,
      }),
    );
    await client.patch(nodes, { name: "node-1" }, { type: "merge", body: { spec: { taints: null } } });
    await eventually(async () => expect(await placed()).toMatchObject({ reason: "AgentEverywhere" }));
  });

  it("has new pods wait for the agent by webhook, and no longer once it is gone", async () => {
    const { client } = cluster;
    await using _berth = await aBerth("", true);
    await aFootprint({
      ...LOG,
      wait: {
        inject: "Webhook",
        port: 9,
        container: { name: "wait-for-logs", image: "registry.test/wait:1" },
      },
    });
    const waits = async (): Promise<boolean> => {
      const pod = aPod("one").labelled({ logs: "yes" }).build();
      const made: Pod = await client.create(pods, pod, { namespace: "default", dryRun: true });
      return made.spec?.initContainers?.[0]?.name === "wait-for-logs";
    };
    await eventually(async () => expect(await waits()).toBe(true));
    await eventually(async () => expect(await podsWait()).toEqual(["True", "AdmissionByWebhook"]));
    await client.delete(nodeFootprints, { name: "agent" });
    await eventually(async () => expect(await waits()).toBe(false));
    // Berth answers by what it has read before the configuration, by which it is asked, has gone.
    await eventually(async () =>
      expect((await client.list(mutatingWebhookConfigurations)).items).toEqual([]),
    );
  });
});

async function podsWait(): Promise<unknown> {
  const { status, reason } = (await statusOf()).conditions?.find(({ type }) => type === "PodsWait") ?? {};
  return [status, reason];
}

describe("a footprint whose pods are to wait", () => {
  it("says that they do not where nobody asks about them, and ceases to once they need not", async () => {
    await using _berth = await aBerth();
    await aFootprint({ ...LOG, wait: { inject: "Webhook", port: 9 } });
    await eventually(async () => expect(await podsWait()).toEqual(["False", "AdmissionOff"]));
    await cluster.client.patch(
      nodeFootprints,
      { name: "agent" },
      { type: "merge", body: { spec: { wait: { inject: "None" } } } },
    );
    await eventually(async () => expect(await podsWait()).toEqual([undefined, undefined]));
  });
});

const POOLS = `apiVersion: berth.dev/v1alpha1
kind: WorkerPools
metadata: {name: default}
spec: {allow: {images: [registry.test/], namespaces: [default]}, uidLabel: true, wait: {}}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: atelet}
spec: {preset: agent-substrate/pr-134}
`;

const POOL = { namespace: "default", name: "pool" };
const MADE = { namespace: "default", name: "pool-deployment" };

async function aPool(): Promise<WorkerPool> {
  return cluster.client.create(
    workerPools,
    {
      apiVersion: "ate.dev/v1alpha1",
      kind: "WorkerPool",
      metadata: POOL,
      spec: { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" },
    },
    { namespace: "default" },
  );
}

describe("WorkerPools", () => {
  it("F-9 F-11 get their Deployment and finalizer by a file, and one that was never scheduled goes", async () => {
    const { client } = cluster;
    await using _berth = await aBerth(POOLS);
    const { metadata: { uid = "" } = {} } = await aPool();
    await eventually(async () => {
      const { metadata } = await client.get(workerPools, POOL);
      expect(metadata?.finalizers).toEqual(["ate.dev/release-node-claims"]);
      const { spec } = await client.get(deployments, MADE);
      expect(spec?.template.metadata?.labels).toEqual({
        "ate.dev/worker-pool": "pool",
        "ate.dev/worker-pool-uid": uid,
      });
      expect(spec?.template.spec?.initContainers?.map(({ name }) => name)).toEqual(["wait-for-atelet"]);
    });
    await client.delete(workerPools, POOL);
    await eventually(() => expectGone());
    const { items } = await client.list(deployments, { namespace: "default" });
    expect(items).toEqual([]);
  });

  it("are left alone without the document, and what holds their deletion goes on", async () => {
    const { client } = cluster;
    {
      await using _berth = await aBerth(POOLS);
      await aPool();
      await eventually(async () => {
        expect((await client.get(workerPools, POOL)).metadata?.finalizers).toHaveLength(1);
        await client.get(deployments, MADE);
      });
    }
    await client.delete(deployments, MADE);
    await using _berth = await aBerth(POOLS.slice(POOLS.indexOf("---")));
    await client.delete(workerPools, POOL);
    await eventually(() => expectGone());
    const { items } = await client.list(deployments, { namespace: "default" });
    expect(items).toEqual([]);
  });
});

async function expectGone(): Promise<void> {
  const found = await cluster.client.get(workerPools, POOL).catch((error: unknown) => error);
  expect(isApiError(found, "notFound")).toBe(true);
}
