/** Owners whose deletion waits, and the nodes of the pods it waits for. Nothing runs pods here: only nodes change. */

import { nodes, pods } from "@berth/kube";
import { workerPools } from "@berth/placement";
import { aNode, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { hurriedClock } from "../../../runtime/src/testing/hurried-clock.ts";
import { startBerth } from "../composition.ts";
import {
  aPool,
  conditionOf,
  footprintCluster,
  NAMESPACE,
  podOf,
  writeFootprint,
} from "./testing/footprint-cluster.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
});

async function setReady(name: string, status: "True" | "Unknown"): Promise<void> {
  const body = { status: { conditions: [{ type: "Ready", status }] } };
  await cluster.client.patch(nodes, { name }, { type: "strategic", body }, { subresource: "status" });
}

const held = (): Promise<unknown> => conditionOf(cluster, "OwnersHeld", "atelet");
const saying = (pattern: RegExp): unknown =>
  expect.objectContaining({ message: expect.stringMatching(pattern) });

describe("an owner whose deletion waits for a pod that ends", () => {
  it("I-19 names the node of the pod while it is silent, and goes at once with the node: no kubelet could end the pod", async () => {
    const { client } = cluster;
    await using _berth = await startBerth({ client, namespace: NAMESPACE, clock: hurriedClock(5) });
    await client.create(nodes, aNode("n").build());
    await setReady("n", "True");
    await writeFootprint(cluster, "atelet", { preset: "agent-substrate/pr-134", hold: { onDelete: "Wait" } });
    const of = { namespace: "default", name: "a" };
    await aPool(cluster, "a");
    const pool = await eventually(async () => {
      const found = await client.get(workerPools, of);
      expect(found.metadata?.finalizers).toContain("ate.dev/release-node-claims");
      return found;
    });
    const labels = { "ate.dev/worker-pool-uid": pool.metadata?.uid ?? "" };
    await client.create(pods, podOf(pool, "a-1", "n").in("default").labelled(labels).build());
    // Nobody ends it, and its own time is far away: what is said of it can change by its node alone.
    await client.delete(pods, { namespace: "default", name: "a-1" }, { gracePeriodSeconds: 3600 });
    await client.delete(workerPools, of);
    await eventually(async () => expect(await held()).toEqual(saying(/default\/a-1(?!.*silent)/)));
    await setReady("n", "Unknown");
    await eventually(async () => expect(await held()).toEqual(saying(/silent/)));
    await setReady("n", "True");
    await eventually(async () => expect(await held()).not.toEqual(saying(/silent/)));
    await client.delete(nodes, { name: "n" });
    await eventually(async () => expect((await client.list(workerPools)).items).toEqual([]));
  });
});
