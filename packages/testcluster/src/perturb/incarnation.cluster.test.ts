import { type KubeClient, nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { aNode } from "../node-builder.ts";
import { sharedTestCluster } from "../shared.ts";
import { Incarnation } from "./incarnation.ts";

const cluster = await sharedTestCluster();

/** A life whose controller does nothing by itself: the test speaks for it. */
async function begin(name: string) {
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  await cluster.client.create(nodes, aNode(name).build());
  let ends = 0;
  let server = "";
  const scene = {
    async start(connection: { readonly server: string }) {
      server = connection.server;
      return { [Symbol.asyncDispose]: async () => void (ends += 1) };
    },
  };
  const incarnation = await Incarnation.begin({ cluster, certificate, scene, number: 1, onChange: () => {} });
  const client = cluster.connect({ server });
  return {
    incarnation,
    client,
    /** How often the controller was told to end. */
    ends: () => ends,
    async [Symbol.asyncDispose]() {
      await incarnation.bury();
      await client.close();
      await cluster.client.delete(nodes, { name });
    },
  };
}

function label(client: KubeClient, name: string): Promise<unknown> {
  const body = { metadata: { labels: { written: "yes" } } };
  return client.patch(nodes, { name }, { type: "merge", body });
}

const isWritten = async (name: string): Promise<boolean> =>
  (await cluster.client.get(nodes, { name })).metadata?.labels?.["written"] !== undefined;

describe("one life of a controller", () => {
  it("reaches the server while it lasts", async () => {
    await using life = await begin("lives-1");
    await label(life.client, "lives-1");
    expect(await isWritten("lives-1")).toBe(true);
    expect(life.incarnation.dead).toBe(false);
  });

  it("reaches nothing from the moment it is killed, over connections it has open and over new ones", async () => {
    await using life = await begin("lives-2");
    await life.client.get(nodes, { name: "lives-2" });
    life.incarnation.kill();
    await expect(label(life.client, "lives-2")).rejects.toThrow(/lives-2/);
    await using late = cluster.connect({ server: life.client.server });
    await expect(label(late, "lives-2")).rejects.toThrow(/lives-2/);
    expect(await isWritten("lives-2")).toBe(false);
  });

  it("ends its watches and lets the controller go once it is buried", async () => {
    await using life = await begin("lives-3");
    const watch = await life.client.watch(nodes, { sendInitialEvents: true });
    const events = watch[Symbol.asyncIterator]();
    await events.next();
    expect(life.ends()).toBe(0);
    await life.incarnation.bury();
    expect(life.ends()).toBe(1);
    const drained = (async () => {
      while ((await events.next()).done !== true);
    })();
    await expect(drained).rejects.toThrow(/watch nodes/);
    await expect(label(life.client, "lives-3")).rejects.toThrow(/lives-3/);
    expect(await isWritten("lives-3")).toBe(false);
  });
});
