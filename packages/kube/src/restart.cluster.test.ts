/** What a client lives through when its API server sends it away. It has a cluster of its own, since it stops it. */
import { aNode, eventually, startTcpProxy, startTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { KubeClient } from "./client.ts";
import { isApiError } from "./failure.ts";
import { nodes } from "./generated/resources.ts";
import { failureOf } from "./testing/api-error.ts";

let cluster: TestCluster;
let client: KubeClient;

beforeAll(async () => {
  cluster = await startTestCluster({
    flags: {
      "kube-apiserver": [
        "--goaway-chance=0.02", // of each request: the most it allows
        "--shutdown-watch-termination-grace-period=5s", // without it, it stays for a minute where a watch is open
      ],
    },
  });
  client = cluster.connect();
  for (const name of ["a", "b", "c"]) await client.create(nodes, aNode(name).build());
});

afterAll(async () => {
  await client.close();
  await cluster[Symbol.asyncDispose]();
});

const annotate = (value: string): Promise<unknown> =>
  client.patch(nodes, { name: "a" }, { type: "merge", body: { metadata: { annotations: { value } } } });

const kindOf = async (promise: Promise<unknown>): Promise<string> => (await failureOf(promise)).kind;

it("a client whose connections get GOAWAY loses no request and no watch", async () => {
  await using link = await startTcpProxy({ target: new URL(cluster.url) });
  await using reader = cluster.connect({ server: link.url });
  await using watch = await reader.watch(nodes, {
    fieldSelector: "metadata.name=a",
    sendInitialEvents: true,
  });
  const events = watch[Symbol.asyncIterator]();
  for (let count = 0; count < 40 || link.stats.opened < 5; count++) {
    await Promise.all(Array.from({ length: 20 }, () => reader.get(nodes, { name: "b" })));
  }
  await annotate("after many");
  for (let seen = ""; seen !== "after many"; ) {
    const { value } = await events.next();
    if (value && value.type !== "BOOKMARK") seen = value.object.metadata?.annotations?.["value"] ?? "";
  }
  // The old connection lives for its watch, the one in use for the reads; those between are gone.
  await eventually(() => {
    expect(link.stats.open).toBeLessThanOrEqual(2);
    // The two ends of a connection are not closed in one moment.
    expect(reader.openSockets).toBe(link.stats.open);
  });
});

it("a client that was sent away, with a watch that goes on, connects to a server that is not there now and then", async () => {
  await using link = await startTcpProxy({ target: new URL(cluster.url) });
  await using reader = cluster.connect({ server: link.url });
  await using _watch = await reader.watch(nodes);
  link.refuse();
  const read = (): Promise<unknown> => reader.get(nodes, { name: "b" }, { timeoutMs: 1_000 });
  for (let isThere = true; isThere; )
    isThere = await read().then(
      () => true,
      () => false,
    );
  expect(link.stats.refused).toBeGreaterThan(0);
  expect(link.stats.refused).toBeLessThan(10);
  link.pass();
  await eventually(read);
});

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
      expect(client.openSockets).toBeLessThanOrEqual(2);
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
