/** Footprints of the cluster that may not be read are no footprints that were deleted. */

import { nodes, pods } from "@berth/kube";
import { aNode, aPod, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { testFolder } from "../testing/harness.ts";
import { allOf, footprintCluster, grant, NAMESPACE, writeFootprint } from "./testing/footprint-cluster.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
});

const ofFile = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: file}
spec:
  workloads: [{podSelector: {matchLabels: {app: a}}}]
  node: {label: {key: example.com/a}}
`;

describe("footprints of the cluster that may not be read any more", () => {
  it("keep their label, however long that lasts", async () => {
    const { client } = cluster;
    const namespace = "default";
    await using folder = await testFolder({ "berth.yaml": ofFile });
    const config = [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }];
    const options = { namespace: NAMESPACE, config };
    await client.create(nodes, aNode("n1").build());
    await client.create(pods, aPod("b").labelled({ app: "b" }).on("n1").build(), { namespace });
    await writeFootprint(cluster, "b", {
      workloads: [{ podSelector: { matchLabels: { app: "b" } } }],
      node: { label: { key: "example.com/b" } },
    });
    const seen = async (): Promise<readonly string[]> => {
      const { metadata } = await client.get(nodes, { name: "n1" });
      return Object.keys(metadata?.labels ?? {}).filter((key) => key.startsWith("example.com/"));
    };
    {
      await using own = cluster.connect();
      await using _berth = await startBerth({ client: own, ...options });
      await eventually(async () => expect(await seen()).toEqual(["example.com/b"]));
    }
    await grant(cluster, { name: "half" }, allOf("batch"));
    await using half = cluster.connect({ user: await cluster.user("half") });
    await eventually(() => half.list(nodes));
    await using _berth = await startBerth({ client: half, ...options });
    // What the file wants is set once Berth goes on without the footprints of the cluster.
    await client.create(pods, aPod("a").labelled({ app: "a" }).on("n1").build(), { namespace });
    await eventually(async () => expect(await seen()).toContain("example.com/a"), { timeoutMs: 60_000 });
    expect(await seen()).toContain("example.com/b");
  });
});
