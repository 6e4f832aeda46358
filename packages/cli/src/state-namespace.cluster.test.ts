import { sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { findStateNamespace } from "./state-namespace.ts";

it("several processes that start at once have one namespace, whichever of them makes it", async () => {
  const { client } = await sharedTestCluster();
  const of = { wanted: "raced", isNeeded: true, cluster: { inCluster: false, namespace: "default" } };
  const { signal } = new AbortController();
  const found = await Promise.all(
    Array.from({ length: 8 }, () => findStateNamespace(client, { ...of, signal })),
  );
  expect(new Set(found.map(({ uid }) => uid)).size).toBe(1);
});
