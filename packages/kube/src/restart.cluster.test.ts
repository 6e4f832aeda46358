/** What a client lives through when its API server is restarted. It has a cluster of its own, since it stops it. */
import { aNode, startTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { KubeClient } from "./client.ts";
import { isApiError } from "./failure.ts";
import { nodes } from "./generated/resources.ts";

let cluster: TestCluster;
let client: KubeClient;

beforeAll(async () => {
  cluster = await startTestCluster();
  client = cluster.connect();
  for (const name of ["a", "b", "c"]) await client.create(nodes, aNode(name).build());
});

afterAll(async () => {
  await client.close();
  await cluster[Symbol.asyncDispose]();
});

const annotate = (value: string): Promise<unknown> =>
  client.patch(nodes, { name: "a" }, { type: "merge", body: { metadata: { annotations: { value } } } });

async function kindOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (isApiError(error)) return error.failure.kind;
  throw new Error("it did not fail with an ApiError", { cause: error });
}

describe("a client whose API server is restarted", () => {
  it.each(["SIGTERM", "SIGKILL"] as const)(
    "by %s sees its watch end, is told while there is no server, and goes on with the next one",
    async (signal) => {
      const watch = await client.watch(nodes);
      const over = (async (): Promise<string> => {
        try {
          for await (const event of watch) expect(event.type).not.toBe("DELETED");
          return "ended";
        } catch (error) {
          return isApiError(error) ? error.failure.kind : String(error);
        }
      })();
      await annotate(`before ${signal}`);
      await cluster.stopComponent("kube-apiserver", signal);
      // An orderly server ends its streams and sends GOAWAY; a killed one just is not there.
      expect(["ended", "unreachable"]).toContain(await over);
      const requests = Array.from({ length: 20 }, () => [client.list(nodes), annotate("never")]).flat();
      expect(new Set(await Promise.all(requests.map(kindOf)))).toEqual(new Set(["unreachable"]));
      await cluster.startComponent("kube-apiserver");
      await Promise.all([client.get(nodes, { name: "a" }), annotate(`after ${signal}`)]);
      expect(client.openSockets).toBe(2);
    },
  );

  it("is told that a version or a page is too old, as expired", async () => {
    const page = await client.list(nodes, { limit: 1 });
    const { resourceVersion = "", continue: token = "" } = page.metadata;
    await annotate("newer");
    await cluster.compact();
    await cluster.stopComponent("kube-apiserver", "SIGKILL");
    await cluster.startComponent("kube-apiserver");
    expect(await kindOf(client.list(nodes, { limit: 1, continue: token }))).toBe("expired");
    const exact = { resourceVersion, resourceVersionMatch: "Exact" } as const;
    expect(await kindOf(client.list(nodes, exact))).toBe("expired");
    const watching = client
      .watch(nodes, { resourceVersion })
      .then((stream) => stream[Symbol.asyncIterator]().next());
    expect(await kindOf(watching)).toBe("expired");
    const pages = client.pages(nodes, { limit: 1, continue: token })[Symbol.asyncIterator]().next();
    expect(await kindOf(pages)).toBe("expired");
  });
});
