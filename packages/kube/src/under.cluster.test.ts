/** A client of an API that a server has under a path, through a proxy that serves a real API server there. */
import { sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { configMaps } from "./generated/resources.ts";
import type { ConfigMap } from "./generated/wire.ts";
import { errorOf, failureOf } from "./testing/api-error.ts";
import { startProxied } from "./testing/proxied.ts";

const PROJECTS = "/apis/tenancy.test/v1/projects";
const under = `${PROJECTS}/web/control-plane`;
const of = { namespace: "default", name: "under-a-path" };

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

it("every request goes under the path, over the connections of the server's client", async () => {
  await using proxied = await startProxied(cluster, { under });
  const { client, proxy } = proxied;
  await using project = client.under(under);
  expect(project.server).toBe(`${proxy.url}${under}`);
  const { metadata } = await project.list<ConfigMap>(configMaps, { namespace: "default" });
  const scope = { namespace: "default", resourceVersion: metadata.resourceVersion ?? "" };
  await using ours = await client.watch(configMaps, scope);
  await using theirs = await project.watch(configMaps, scope);
  expect(client.openSockets).toBe(1);
  await project.create(configMaps, { metadata: of });
  for (const watch of [ours, theirs])
    expect(await watch[Symbol.asyncIterator]().next()).toMatchObject({
      value: { type: "ADDED", object: { metadata: of } },
    });
  await project.patch(configMaps, of, { type: "merge", body: { data: { a: "b" } } });
  expect(await project.get(configMaps, of)).toMatchObject({ data: { a: "b" } });
  expect(await project.read("/readyz")).toBe("ok");
  await project.delete(configMaps, of);
  const missing = await errorOf(project.get(configMaps, of));
  expect(missing.request).toMatchObject({ resource: "configmaps", under });
  expect(missing.message).toContain(`get configmaps "under-a-path" in "default" under ${under}: not found`);
  const paths = proxy.requests.map(({ path }) => path.startsWith(`${under}/`));
  expect(paths.filter((isUnder) => !isUnder)).toHaveLength(1);
});

it("a path follows that of the server's URL and those before it", async () => {
  await using proxied = await startProxied(cluster, { under });
  await using server = cluster.connect({ server: `${proxied.proxy.url}/apis/tenancy.test/v1` });
  const project = server.under("/projects/web").under("/control-plane");
  expect(project.server).toBe(`${proxied.proxy.url}${under}`);
  expect(
    await project.get(configMaps, { namespace: "kube-system", name: "extension-apiserver-authentication" }),
  ).toHaveProperty("data");
});

it("closing such a client ends its own requests only", async () => {
  await using proxied = await startProxied(cluster, { under });
  const { client } = proxied;
  const [closed, open] = [client.under(under), client.under(under)];
  await using watch = await closed.watch(configMaps);
  await using other = await open.watch(configMaps, { sendInitialEvents: true });
  const events = watch[Symbol.asyncIterator]();
  const ended = failureOf(
    (async () => {
      for (;;) await events.next();
    })(),
  );
  await closed.close();
  expect(await ended).toEqual({ kind: "aborted" });
  expect(await failureOf(closed.read("/version"))).toEqual({ kind: "aborted" });
  expect(await other[Symbol.asyncIterator]().next()).toHaveProperty("value.type");
  await client.read("/version");
  await client.close();
  expect(await failureOf(open.read("/version"))).toEqual({ kind: "aborted" });
});

it("a client of the same API ends its own requests only, and failures name the cluster", async () => {
  await using client = cluster.connect({ cluster: "dfw-01" });
  const whole = client.under("");
  expect(client.under("/a", { cluster: "ord-01" }).cluster).toBe("ord-01");
  expect([whole.server, whole.cluster]).toEqual([client.server, "dfw-01"]);
  const missing = await errorOf(whole.get(configMaps, of));
  expect(missing.request).toEqual({ verb: "get", resource: "configmaps", ...of, cluster: "dfw-01" });
  expect(missing.message).toContain(
    `get configmaps "under-a-path" in "default" of cluster dfw-01: not found`,
  );
  expect((await errorOf(client.get(configMaps, { name: "" }))).request.cluster).toBe("dfw-01");
  await whole.close();
  expect(await failureOf(whole.read("/version"))).toEqual({ kind: "aborted" });
  await client.read("/version");
});
