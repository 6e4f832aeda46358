import { configMaps, isApiError, nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { startTestCluster } from "./cluster.ts";
import { aNode } from "./node-builder.ts";
import { sharedTestCluster } from "./shared.ts";

describe("the audit log", () => {
  it("counts every request that was answered, and none twice", async () => {
    const cluster = await sharedTestCluster({ audit: true });
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
    const cluster = await sharedTestCluster({ audit: true });
    const mark = await cluster.audit.mark();
    expect(await cluster.audit.countSince(mark, { user: "admin" })).toBe(0);
    await cluster.client.list(configMaps);
    expect(await cluster.audit.countSince(mark, { user: "admin" })).toBe(1);
    expect(await cluster.audit.countSince(mark, { user: "admin" })).toBe(1);
    expect(await cluster.audit.countSince(await cluster.audit.mark(), { user: "admin" })).toBe(0);
  });

  it("counts a watch once it is accepted, and refused requests by their code", async () => {
    const cluster = await sharedTestCluster({ audit: true });
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

  it("says how to get one when the cluster has none", async () => {
    await using cluster = await startTestCluster();
    expect(() => cluster.audit).toThrow("audit: true");
  });
});
