/** Answers that are no success, and what becomes of them. `T-n`: see "Traps" in the README of this package. */
import { performance } from "node:perf_hooks";
import {
  aNode,
  answer,
  cutAfterForwarding,
  garbage,
  internalError,
  sharedTestCluster,
  type TestCluster,
  tooManyRequests,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { nodes, pods, secrets } from "./generated/resources.ts";
import type { KubeObject } from "./object.ts";
import { errorOf, failureOf } from "./testing/api-error.ts";
import { startProxied } from "./testing/proxied.ts";

const of = { name: "n1" };
const patch = { type: "merge", body: { metadata: { labels: { a: "b" } } } } as const;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(nodes, aNode("n1").build());
});

describe("T-12 a server that asks to slow down", () => {
  it.each([
    ["as priority and fairness says it", { plainText: true }],
    ["as a Status", {}],
  ])("is waited for and asked again, %s: reads, writes and watches", async (_, options) => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    const slow = proxy.on({ resource: "nodes" }, tooManyRequests(1, options), { times: 3 });
    const startedAt = performance.now();
    const [, patched, watch] = await Promise.all([
      client.get(nodes, of),
      client.patch(nodes, of, patch),
      client.watch(nodes),
    ]);
    await watch[Symbol.asyncDispose]();
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1000);
    expect(patched.metadata?.labels).toMatchObject({ a: "b" });
    expect(slow.hits).toBe(3);
    expect(proxy.count({ resource: "nodes" })).toBe(6);
  });

  it("and names a time after the deadline is not waited for", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    using _ = proxy.on({ resource: "nodes" }, tooManyRequests(60));
    const startedAt = performance.now();
    const error = await errorOf(client.get(nodes, of, { timeoutMs: 30_000 }));
    expect(error).toMatchObject({
      failure: { kind: "tooManyRequests" },
      retry: "backoff",
      retryAfterMs: 60_000,
    });
    expect(performance.now() - startedAt).toBeLessThan(30_000);
  });

  it("and goes on asking is believed at the deadline", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    // The second wait would go on beyond the deadline, however late the second request came.
    const slow = proxy.on({ resource: "nodes" }, tooManyRequests(4));
    const error = await errorOf(client.get(nodes, of, { timeoutMs: 7_000 }));
    expect(error.failure.kind).toBe("tooManyRequests");
    expect(slow.hits).toBe(2);
  });

  it("stops waiting when the caller aborts", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    using slow = proxy.on({ resource: "nodes" }, tooManyRequests(20));
    const abort = new AbortController();
    const failed = errorOf(client.get(nodes, of, { signal: abort.signal }));
    await slow.until();
    abort.abort();
    expect((await failed).failure).toEqual({ kind: "aborted" });
  });

  it("is taken at its word about an eviction, which is for the caller to repeat", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    const causes = [{ reason: "DisruptionBudget", message: "one is needed" }];
    const slow = proxy.on({ subresource: "eviction" }, tooManyRequests(1, { causes }));
    const metadata = { namespace: "default", name: "p" };
    const eviction: KubeObject = { apiVersion: "policy/v1", kind: "Eviction", metadata };
    const error = await errorOf(client.create<KubeObject>(pods, eviction, { subresource: "eviction" }));
    expect(error.failure).toEqual({ kind: "tooManyRequests", causes });
    expect(error.retryAfterMs).toBe(1000);
    expect(slow.hits).toBe(1);
  });
});

describe("a server that fails", () => {
  it("with 500 or 503 is reported at once, with its words", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    const failing = proxy.on({ verb: "get" }, internalError());
    const error = await errorOf(client.get(nodes, of));
    expect(error.failure).toEqual({ kind: "serverError", status: 500 });
    expect(error.retry).toBe("backoff");
    expect(error.message).toBe(
      'get nodes "n1": the server failed (HTTP 500): injected fault: get nodes "n1" answered with 500',
    );
    expect(failing.hits).toBe(1);
    using _ = proxy.on({ verb: "list" }, answer(503));
    expect(await failureOf(client.list(nodes))).toEqual({ kind: "serverError", status: 503 });
  });

  it("with 503 and a time is asked again after it", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    const failing = proxy.on({ verb: "get" }, answer(503, { retryAfterSeconds: 1 }), { times: 1 });
    await client.get(nodes, of);
    expect(failing.hits).toBe(1);
  });

  it("after it has written is unreachable, and the write stands", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    using _ = proxy.on({ verb: "patch" }, cutAfterForwarding());
    const body = { metadata: { annotations: { written: "yes" } } };
    const error = await errorOf(client.patch(nodes, of, { type: "merge", body }));
    expect(error).toMatchObject({ failure: { kind: "unreachable" }, retry: "backoff" });
    expect(proxy.count({ verb: "patch" })).toBe(1);
    expect((await cluster.client.get(nodes, of)).metadata?.annotations).toMatchObject({ written: "yes" });
  });
});

describe("an answer that is none", () => {
  it.each(["text", "truncated"] as const)("is undecodable: %s", async (body) => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    using _ = proxy.on({ resource: "nodes" }, garbage(body));
    const requests = [
      () => client.get(nodes, of),
      () => client.list(nodes),
      () => client.patch(nodes, of, patch),
    ];
    for (const send of requests) expect(await failureOf(send())).toEqual({ kind: "undecodable" });
    const watch = await client.watch(nodes);
    const next = watch[Symbol.asyncIterator]().next();
    expect(await failureOf(next)).toEqual({ kind: "undecodable" });
  });

  it("with an error status is named by its first line, or by nothing when it is a page", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    using _ = proxy.on({ verb: "get" }, answer(502, { plainText: true, message: "upstream is gone\nmore" }));
    expect((await errorOf(client.get(nodes, of))).message).toBe(
      'get nodes "n1": the server failed (HTTP 502): upstream is gone',
    );
    using page = proxy.on({ verb: "list" }, answer(502, { plainText: true, message: "<html>bad</html>" }));
    expect((await errorOf(client.list(nodes))).message).toBe("list nodes: the server failed (HTTP 502)");
    expect(page.hits).toBe(1);
  });
});

describe("T-11 a refusal", () => {
  it("is told by kind, with what to do about it and with the field that is at fault", async () => {
    const error = await errorOf(
      cluster.client.patch(nodes, of, { type: "merge", body: { spec: { taints: [{ key: "a" }] } } }),
    );
    expect(error.retry).toBe("never");
    expect(error.failure.kind === "invalid" && error.failure.causes[0]).toMatchObject({
      reason: "FieldValueRequired",
      field: expect.stringContaining("taints[0].effect") as string,
    });
    expect(error.message).toMatch(
      /^patch nodes "n1": the server refused the content: Node "n1" is invalid: /,
    );
  });

  it("by authorization names verb, resource and place, so that a role can be written from it", async () => {
    const user = await cluster.user("nobody-special");
    await using client = cluster.connect({ user });
    const error = await errorOf(client.list(secrets, { namespace: "kube-system" }));
    expect(error.failure).toEqual({ kind: "forbidden" });
    expect(error.request).toEqual({ verb: "list", resource: "secrets", namespace: "kube-system" });
    expect(error.message).toContain(
      'list secrets in "kube-system": the server\'s authorization refused it: ',
    );
    expect(error.message).toContain('User "nobody-special" cannot list resource "secrets"');
    expect((await errorOf(client.watch(nodes))).request).toEqual({ verb: "watch", resource: "nodes" });
    const status = await errorOf(client.patch(nodes, of, patch, { subresource: "status" }));
    expect(status.request).toEqual({ verb: "patch", resource: "nodes", subresource: "status", name: "n1" });
    const collection = await errorOf(client.deleteCollection(pods, { namespace: "default" }));
    expect(collection.request.verb).toBe("deletecollection");
  });
});
