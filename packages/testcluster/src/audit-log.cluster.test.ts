import { once } from "node:events";
import { request } from "node:https";
import { configMaps, isApiError, nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { startTestCluster, type TestCluster } from "./cluster.ts";
import { aNode } from "./node-builder.ts";
import { sharedTestCluster } from "./shared.ts";

describe("the audit log", () => {
  it("counts every request that was answered, and none twice", async () => {
    const cluster = await sharedTestCluster();
    await using tested = cluster.connect({ userAgent: "berth-under-test/1" });
    await cluster.client.create(nodes, aNode("n1").build());
    for (const writes of [1, 7, 150]) {
      const mark = await cluster.audit.mark();
      const patches = Array.from({ length: writes }, (_, index) =>
        tested.patch(
          nodes,
          { name: "n1" },
          { type: "merge", body: { metadata: { labels: { n: `${index}` } } } },
        ),
      );
      await Promise.all(patches);
      await cluster.client.get(nodes, { name: "n1" });
      const filter = { verb: "patch", resource: "nodes", userAgent: "berth-under-test" };
      expect(await cluster.audit.countSince(mark, filter)).toBe(writes);
      expect(await cluster.audit.countSince(mark, { ...filter, code: 200, name: "n1" })).toBe(writes);
      expect(await cluster.audit.countSince(mark, { ...filter, user: "somebody" })).toBe(0);
    }
  });

  it("sees nothing in a quiet time, and keeps a mark valid", async () => {
    const cluster = await sharedTestCluster();
    const mark = await cluster.audit.mark();
    expect(await cluster.audit.countSince(mark, { user: "admin" })).toBe(0);
    await cluster.client.list(configMaps);
    expect(await cluster.audit.countSince(mark, { user: "admin" })).toBe(1);
    expect(await cluster.audit.countSince(mark, { user: "admin" })).toBe(1);
    expect(await cluster.audit.countSince(await cluster.audit.mark(), { user: "admin" })).toBe(0);
  });

  it("counts a watch once it is accepted, and refused requests by their code", async () => {
    const cluster = await sharedTestCluster();
    await using stranger = cluster.connect({ user: await cluster.user("stranger") });
    const mark = await cluster.audit.mark();
    {
      await using watch = await cluster.client.watch(nodes, { resourceVersion: "0" });
      expect(watch.lastByteAt).toBeGreaterThan(0);
      expect(await cluster.audit.countSince(mark, { verb: "watch", resource: "nodes", user: "admin" })).toBe(
        1,
      );
    }
    await cluster.client.list(nodes); // after the watch has ended, which must not count again
    await expect(stranger.list(nodes)).rejects.toSatisfy((error) => isApiError(error, "forbidden"));
    expect(await cluster.audit.countSince(mark, { verb: "watch", user: "admin" })).toBe(1);
    expect(await cluster.audit.tallySince(mark, { resource: "nodes" })).toEqual(
      expect.arrayContaining([
        { user: "admin", verb: "watch", resource: "nodes", count: 1 },
        { user: "admin", verb: "list", resource: "nodes", count: 1 },
        { user: "stranger", verb: "list", resource: "nodes", count: 1 },
      ]),
    );
    expect(await cluster.audit.entriesSince(mark, { user: "stranger" })).toMatchObject([{ code: 403 }]);
  });

  it("counts no request that was received before the mark and is answered after it", async () => {
    const cluster = await sharedTestCluster();
    const before = await cluster.audit.mark();
    const slow = await startSlowCreate(cluster);
    const mark = await cluster.audit.mark();
    await slow.end();
    expect(await cluster.audit.countSince(before, MADE)).toBe(1);
    expect(await cluster.audit.countSince(mark, MADE)).toBe(0);
  });

  it("I-20 gives a follower each request once, also one that is in flight between two readings", async () => {
    const cluster = await sharedTestCluster();
    const next = cluster.audit.follow(await cluster.audit.mark(), MADE);
    const slow = await startSlowCreate(cluster);
    expect(await next()).toHaveLength(0);
    await slow.end();
    expect(await next()).toHaveLength(1);
    expect(await next()).toHaveLength(0);
  });

  it("says how to get one when the cluster has none", async () => {
    await using cluster = await startTestCluster();
    expect(() => cluster.audit).toThrow("audit: true");
  });
});

const MADE = { verb: "create", resource: "configmaps", code: 201 };

/** Resolves once the server has received a request; `end` lets it answer. */
async function startSlowCreate(cluster: TestCluster): Promise<{ end(): Promise<void> }> {
  const body = JSON.stringify({ metadata: { generateName: "slow-" } });
  const slow = request(new URL("/api/v1/namespaces/default/configmaps", cluster.url), {
    method: "POST",
    ca: cluster.ca,
    headers: {
      authorization: `Bearer ${cluster.adminToken}`,
      "content-type": "application/json",
      "content-length": body.length,
      // Answered once the server has the request, and wants its body.
      expect: "100-continue",
    },
  });
  slow.flushHeaders();
  await once(slow, "continue");
  return {
    async end() {
      slow.end(body);
      const [response] = await once(slow, "response");
      response.resume();
      await once(response, "end");
    },
  };
}
