/** Owners whose deletion waits, and the nodes of the pods it waits for. Nothing runs pods here: only nodes change. */

import { nodes, pods } from "@berth/kube";
import { nodeFootprints, workerPools } from "@berth/placement";
import { aNode, aPod, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { footprintCluster, writeFootprint } from "./testing/footprint-cluster.ts";

const NAMESPACE = "berth-system";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
});

async function setReady(name: string, status: "True" | "Unknown"): Promise<void> {
  const body = { status: { conditions: [{ type: "Ready", status }] } };
  await cluster.client.patch(nodes, { name }, { type: "strategic", body }, { subresource: "status" });
}

/** What the footprint says of the owners that it holds. */
async function heldBy(name: string): Promise<string> {
  const { status } = await cluster.client.get(nodeFootprints, { name });
  return status?.conditions?.find(({ type }) => type === "OwnersHeld")?.message ?? "";
}

describe("an owner whose deletion waits for a pod that ends", () => {
  it("I-19 names the node of the pod while it is silent, and goes at once with the node: no kubelet could end the pod", async () => {
    const { client } = cluster;
    await using _berth = await startBerth({ client, namespace: NAMESPACE });
    await client.create(nodes, aNode("n").build());
    await setReady("n", "True");
    await writeFootprint(cluster, "atelet", { preset: "agent-substrate/pr-134", hold: { onDelete: "Wait" } });
    const of = { namespace: "default", name: "a" };
    await client.create(workerPools, { metadata: of, spec: { replicas: 1, ateomImage: "image" } });
    const pool = await eventually(async () => {
      const found = await client.get(workerPools, of);
      expect(found.metadata?.finalizers).toContain("ate.dev/release-node-claims");
      return found;
    });
    const uid = pool.metadata?.uid ?? "";
    const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name: "a", uid, controller: true };
    const pod = aPod("a-1")
      .in("default")
      .on("n")
      .labelled({ "ate.dev/worker-pool-uid": uid })
      .with((it) => ({ ...it, metadata: { ...it.metadata, ownerReferences: [owner] } }))
      .build();
    await client.create(pods, pod);
    // Nobody ends it, and its own time is far away: what is said of it can change by its node alone.
    await client.delete(pods, { namespace: "default", name: "a-1" }, { gracePeriodSeconds: 3600 });
    await client.delete(workerPools, of);
    await eventually(async () => expect(await heldBy("atelet")).toMatch(/default\/a-1(?!.*silent)/));
    await setReady("n", "Unknown");
    await eventually(async () => expect(await heldBy("atelet")).toContain("silent"));
    await setReady("n", "True");
    await eventually(async () => expect(await heldBy("atelet")).not.toContain("silent"));
    await client.delete(nodes, { name: "n" });
    await eventually(async () => expect((await client.list(workerPools)).items).toEqual([]));
  });
});
