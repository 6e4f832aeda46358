/** An API server that only a proxy finds, with a kubeconfig that says how. */
import { mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ForwardProxy,
  sharedTestCluster,
  startForwardProxy,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { KubeClient } from "./client.ts";
import { configMaps, selfSubjectReviews } from "./generated/resources.ts";
import { loadKubeconfig } from "./kubeconfig.ts";
import { connect } from "./rest-client.ts";
import { errorOf } from "./testing/api-error.ts";

const PASSWORD = "correct-horse-battery";
const HOST = "api.example:6443";
const user = { name: "me", password: PASSWORD };
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
});

interface Behind extends AsyncDisposable {
  readonly client: KubeClient;
}

/** A client by a kubeconfig, whose certificate authority is a file that is gone after the start. */
async function connectThrough(proxyUrl: string, ofUser: object = {}): Promise<Behind> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-proxy-"));
  await writeFile(join(folder.path, "ca.crt"), cluster.ca);
  const { user: admin } = parse(cluster.kubeconfig()).users[0];
  const entry = {
    server: `https://${HOST}`,
    "proxy-url": proxyUrl,
    "tls-server-name": "127.0.0.1",
    "certificate-authority": "ca.crt",
  };
  const config = {
    clusters: [{ name: "k", cluster: entry }],
    users: [{ name: "u", user: { ...admin, ...ofUser } }],
    contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
    "current-context": "c",
  };
  const file = join(folder.path, "config");
  await writeFile(file, JSON.stringify(config));
  const { connect: how } = await loadKubeconfig([file], { environment: {} });
  await rm(folder.path, { recursive: true });
  const client = connect(how);
  return { client, [Symbol.asyncDispose]: () => client.close() };
}

const startProxy = (): Promise<ForwardProxy> =>
  startForwardProxy({ user, hosts: { [HOST]: new URL(cluster.url).host } });

describe("through the proxy of a kubeconfig", () => {
  it("reads and watches share one tunnel, and writes go through others", async () => {
    await using proxy = await startProxy();
    await using behind = await connectThrough(proxy.url);
    const { client } = behind;
    const of = { namespace: "default", name: "through-a-proxy" };
    const { metadata } = await client.list(configMaps, { namespace: "default" });
    const scope = { namespace: "default", resourceVersion: metadata.resourceVersion ?? "" };
    await using watch = await client.watch(configMaps, scope);
    expect(proxy.requests).toEqual([`CONNECT ${HOST}`]);
    await client.create(configMaps, { metadata: of });
    expect(await watch[Symbol.asyncIterator]().next()).toMatchObject({ value: { type: "ADDED" } });
    await client.delete(configMaps, of);
    expect(new Set(proxy.requests)).toEqual(new Set([`CONNECT ${HOST}`]));
  });

  it("requests are for the user of the kubeconfig", async () => {
    await using proxy = await startProxy();
    const as = {
      as: "jane",
      "as-uid": "17",
      "as-groups": ["a", "b"],
      "as-user-extra": { "example.com/team": ["x", "y"] },
    };
    await using behind = await connectThrough(proxy.url, as);
    const refused = await errorOf(behind.client.list(configMaps));
    expect(refused.failure.kind).toBe("forbidden");
    const { status } = await behind.client.create(selfSubjectReviews, {});
    expect(status?.userInfo).toEqual({
      username: "jane",
      uid: "17",
      groups: ["a", "b", "system:authenticated"],
      extra: { "example.com/team": ["x", "y"] },
    });
  });

  it("a proxy that refuses, wants a login, or is away is told, without its password", async () => {
    await using proxy = await startProxy();
    await using refusing = await startForwardProxy({ status: 403 });
    const away = await startForwardProxy();
    await away[Symbol.asyncDispose]();
    for (const [url, why] of [
      [
        `http://me:${PASSWORD}-not@127.0.0.1:${proxy.port}`,
        "the proxy answers with status 407: it wants a login",
      ],
      [refusing.url, "the proxy answers with status 403"],
      [away.url, "ECONNREFUSED"],
    ] as const) {
      await using behind = await connectThrough(url);
      const requests = [behind.client.list(configMaps), behind.client.create(selfSubjectReviews, {})];
      for (const error of await Promise.all(requests.map((it) => errorOf(it)))) {
        expect(error.failure.kind).toBe("unreachable");
        expect(error.message).toContain(why);
        expect(error.message + String(error.cause)).not.toContain(PASSWORD);
      }
    }
  });
});
