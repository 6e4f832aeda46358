import { configMaps, customResourceDefinitions, defineResource, isApiError, nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { eventually } from "./eventually.ts";
import { aNode } from "./node-builder.ts";
import { sharedTestCluster } from "./shared.ts";

it("sharedTestCluster hands every caller with the same options the same cluster", async () => {
  const [one, two] = await Promise.all([sharedTestCluster(), sharedTestCluster({ with: [] })]);
  expect(two).toBe(one);
  expect(await one.client.read("/readyz")).toBe("ok");
});

it("sharedTestCluster tries again after a failed start", async () => {
  const options = { flags: { "kube-apiserver": ["--no-such-flag"] } };
  const first = sharedTestCluster(options);
  await expect(first).rejects.toThrow("no-such-flag");
  const second = sharedTestCluster(options);
  expect(second).not.toBe(first);
  await expect(second).rejects.toThrow("no-such-flag");
});

describe("a snapshot", () => {
  it("is what the cluster becomes again: new objects go with their finalizers, others are as they were", async () => {
    const cluster = await sharedTestCluster();
    const { client } = cluster;
    const [kept, lost] = ["kept", "lost"].map((name) => ({ namespace: "default", name }));
    if (kept === undefined || lost === undefined) throw new Error("two names");
    for (const metadata of [kept, lost]) await client.create(configMaps, { metadata, data: { a: "1" } });
    const before = await cluster.snapshot();

    await client.create(nodes, aNode("n1").build());
    const body = { metadata: { finalizers: ["example.com/never"] } };
    await client.patch(nodes, { name: "n1" }, { type: "merge", body });
    await client.patch(configMaps, kept, { type: "merge", body: { data: { a: "2" } } });
    await client.delete(configMaps, lost);
    await client.create(customResourceDefinitions, CRD);
    await eventually(() => client.create(widgets, { metadata: { name: "w1" } }));

    // Twice, as a file of tests is followed by another.
    for (let time = 1; time <= 2; time++) {
      await cluster.restore(before);
      expect((await client.list(nodes)).items).toEqual([]);
      for (const name of [kept, lost]) expect((await client.get(configMaps, name)).data).toEqual({ a: "1" });
      await expect(client.list(widgets)).rejects.toSatisfy((error) => isApiError(error, "notFound"));
      expect((await client.list(customResourceDefinitions)).items).toEqual([]);
    }
    await client.create(customResourceDefinitions, CRD);
    await eventually(async () => expect((await client.list(widgets)).items).toEqual([]));
  });
});

const widgets = defineResource({
  group: "snapshot.example.com",
  version: "v1",
  plural: "widgets",
  kind: "Widget",
  namespaced: false,
});
const CRD = {
  metadata: { name: "widgets.snapshot.example.com" },
  spec: {
    group: widgets.group,
    scope: "Cluster",
    names: { plural: "widgets", kind: "Widget" },
    versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
  },
};
