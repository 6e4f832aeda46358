/** Node footprints and WorkerPools in a running Berth, on a real API server. Nothing schedules pods here. */

import { daemonSets, deployments, isApiError, nodes, pods } from "@berth/kube";
import { nodeFootprints, workerPools } from "@berth/placement";
import { eventually, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  aBerth,
  agentOf,
  aPool,
  aUsedNode,
  clear,
  conditionOf,
  footprintCluster,
  LABEL,
  NAMESPACE,
  statusOf,
  writeFootprint,
} from "./testing/footprint-cluster.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
});
afterEach(() => clear(cluster));

const LOG = { preset: "log", workloads: [{ podSelector: { matchLabels: { logs: "yes" } } }] };

const removePodOn = (node: string): Promise<void> =>
  cluster.client.delete(pods, { namespace: "default", name: `on-${node}` }, { gracePeriodSeconds: 0 });

/** The label's value, and the names of the claims. */
async function marksOf(name: string): Promise<readonly (string | undefined)[]> {
  const { metadata } = await cluster.client.get(nodes, { name });
  const claims = Object.keys(metadata?.annotations ?? {}).filter((key) => key.startsWith(`${LABEL}_`));
  return [metadata?.labels?.[LABEL], ...claims.map((key) => key.slice(LABEL.length + 1))];
}

describe("a footprint of the cluster", () => {
  it("marks nodes while pods need the agent, says how many, and takes its marks along when it goes", async () => {
    const { client } = cluster;
    await using _berth = await aBerth(cluster);
    await aUsedNode(cluster, "node-1");
    await writeFootprint(cluster, "agent", { ...LOG, release: { delay: "0s" } });
    await eventually(async () => expect(await marksOf("node-1")).toEqual(["true", "default"]));
    await aUsedNode(cluster, "node-2");
    await eventually(async () => expect(await marksOf("node-2")).toEqual(["true", "default"]));
    await eventually(async () =>
      expect(await statusOf(cluster)).toMatchObject({
        nodes: { labelled: 2, pending: 0, unknown: 0 },
        claims: 2,
      }),
    );
    await removePodOn("node-2");
    await eventually(async () => expect(await marksOf("node-2")).toEqual([undefined]));
    await eventually(async () => {
      const { nodes: counts, conditions } = await statusOf(cluster);
      expect(counts?.labelled).toBe(1);
      expect(conditions).toContainEqual(
        expect.objectContaining({ type: "Ready", status: "True", reason: "FootprintInForce" }),
      );
    });
    await client.delete(nodeFootprints, { name: "agent" });
    await eventually(async () => expect(await marksOf("node-1")).toEqual([undefined]));
  });

  it("F-B2 lets nodes go whose last pod went while nobody ran", async () => {
    await aUsedNode(cluster, "node-1");
    await writeFootprint(cluster, "agent", { ...LOG, release: { delay: "0s" } });
    {
      await using _berth = await aBerth(cluster);
      await eventually(async () => expect(await marksOf("node-1")).toEqual(["true", "default"]));
    }
    await removePodOn("node-1");
    await using _berth = await aBerth(cluster);
    await eventually(async () => expect(await marksOf("node-1")).toEqual([undefined]));
  });

  it("F-E14 has the DaemonSet follow once every node that needs it is labelled, and counts where it is ready", async () => {
    const { client } = cluster;
    await using _berth = await aBerth(cluster);
    await client.create(daemonSets, agentOf());
    await aUsedNode(cluster, "node-1");
    const of = { namespace: "default", name: "agent" };
    await writeFootprint(cluster, "agent", { ...LOG, agent: { daemonSet: of, nodeSelector: "Manage" } });
    await eventually(async () => {
      const { spec } = await client.get(daemonSets, of);
      expect(spec?.template.spec?.nodeSelector).toEqual({ [LABEL]: "true" });
    });
    expect(await marksOf("node-1")).toEqual(["true", "default"]);
    await eventually(async () =>
      expect(await statusOf(cluster)).toMatchObject({ nodes: { agentReady: 0, agentUnschedulable: 0 } }),
    );
    const scheduled = { currentNumberScheduled: 1, desiredNumberScheduled: 1, numberMisscheduled: 0 };
    const body = { status: { ...scheduled, numberReady: 1 } };
    await client.patch(daemonSets, of, { type: "merge", body }, { subresource: "status" });
    await eventually(async () => expect((await statusOf(cluster)).nodes?.agentReady).toBe(1));
  });

  it("F-B8 says on which node the agent cannot run, and why, and that it can again", async () => {
    const { client } = cluster;
    await using _berth = await aBerth(cluster);
    await client.create(daemonSets, agentOf());
    const taint = { key: "example.com/microvm", value: "true", effect: "NoSchedule" };
    await aUsedNode(cluster, "node-1");
    const taints = (value: readonly object[] | null): Promise<object> =>
      client.patch(nodes, { name: "node-1" }, { type: "merge", body: { spec: { taints: value } } });
    await taints([taint]);
    await writeFootprint(cluster, "agent", {
      ...LOG,
      agent: { daemonSet: { namespace: "default", name: "agent" } },
    });
    const placed = (): Promise<unknown> => conditionOf(cluster, "AgentPlaced");
    await eventually(async () =>
      expect(await placed()).toMatchObject({
        status: "False",
        reason: "AgentUnschedulable",
        message: expect.stringMatching(/node-1.*example\.com\/microvm=true:NoSchedule/) as string,
      }),
    );
    await taints(null);
    await eventually(async () => expect(await placed()).toMatchObject({ reason: "AgentEverywhere" }));
  });
});

describe("a footprint whose pods are to wait", () => {
  it("says that they do not where nobody asks about them, and ceases to once they need not", async () => {
    await using _berth = await aBerth(cluster);
    await writeFootprint(cluster, "agent", { ...LOG, wait: { inject: "Webhook", port: 9 } });
    const podsWait = (): Promise<unknown> => conditionOf(cluster, "PodsWait");
    const off = { status: "False", reason: "AdmissionOff" };
    await eventually(async () => expect(await podsWait()).toMatchObject(off));
    await cluster.client.patch(
      nodeFootprints,
      { name: "agent" },
      { type: "merge", body: { spec: { wait: { inject: "None" } } } },
    );
    await eventually(async () => expect(await podsWait()).toBeUndefined());
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

describe("WorkerPools", () => {
  it("are left alone without the document, and what holds their deletion goes on", async () => {
    const { client } = cluster;
    {
      await using _berth = await aBerth(cluster, { config: POOLS });
      await aPool(cluster, "pool");
      await eventually(async () => {
        expect((await client.get(workerPools, POOL)).metadata?.finalizers).toHaveLength(1);
        await client.get(deployments, MADE);
      });
    }
    await client.delete(deployments, MADE);
    await using _berth = await aBerth(cluster, { config: POOLS.slice(POOLS.indexOf("---")) });
    await client.delete(workerPools, POOL);
    await eventually(async () => {
      const found = await client.get(workerPools, POOL).catch((error: unknown) => error);
      expect(isApiError(found, "notFound")).toBe(true);
    });
    const { items } = await client.list(deployments, { namespace: "default" });
    expect(items).toEqual([]);
  });
});
