/** Who the API server takes us for, and what happens when it no longer does. `T-n`: see "Traps" in the README. */
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import {
  aNode,
  createAuthority,
  garbage,
  type HttpProxy,
  hold,
  sharedTestCluster,
  startHttpProxy,
  startTcpProxy,
  type TestCluster,
  type TestUser,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import type { KubeClient } from "./client.ts";
import { bearerToken, replaceableCredential, staticCredential, tokenFile } from "./credential.ts";
import { configMaps, nodes, selfSubjectReviews } from "./generated/resources.ts";
import { loadKubeconfig } from "./kubeconfig.ts";
import { connect } from "./rest-client.ts";
import { errorOf } from "./testing/api-error.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(nodes, aNode("n1").build());
});

async function createFolder() {
  const temporary = await mkdtempDisposable(join(tmpdir(), "berth-credential-"));
  const at = (name: string): string => join(temporary.path, name);
  return {
    at,
    /** Writes a file and gives its path. */
    write: async (name: string, text: string, mode = 0o600): Promise<string> => {
      await writeFile(at(name), text, { mode });
      return at(name);
    },
    [Symbol.asyncDispose]: () => temporary.remove(),
  };
}

async function startProxy(hosts: readonly string[] = ["127.0.0.1"]): Promise<HttpProxy> {
  const certificate = await cluster.authority.issueServing(hosts);
  return startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate });
}

/** The name by which the server knows the client. */
async function whoAmI(client: KubeClient): Promise<string | undefined> {
  const review = await client.create(selfSubjectReviews, {});
  return review.status?.userInfo?.username;
}

describe("a token", () => {
  it("that was rotated on disk is read again after a 401, once for all requests that got one", async () => {
    await using folder = await createFolder();
    await using proxy = await startProxy();
    const file = await folder.write("token", "expired");
    await using client = cluster.connect({ server: proxy.url });
    await using rotating = connect({ server: proxy.url, ca: cluster.ca, credential: tokenFile(file) });
    const held = hold();
    using _ = proxy.on({ resource: "nodes" }, held, { times: 5 });
    const requests = Array.from({ length: 5 }, () => rotating.get(nodes, { name: "n1" }));
    await held.until(5);
    await folder.write("token", cluster.adminToken);
    held.release();
    for (const node of await Promise.all(requests)) expect(node.metadata?.name).toBe("n1");
    expect(proxy.requests.map(({ status }) => status)).toEqual([...times(5, 401), ...times(5, 200)]);
    expect(await whoAmI(client)).toBe("admin");
  });

  it("that stays bad is unauthorized after exactly two requests", async () => {
    await using folder = await createFolder();
    await using proxy = await startProxy();
    const credential = tokenFile(await folder.write("token", "expired"));
    await using client = connect({ server: proxy.url, ca: cluster.ca, credential });
    const error = await errorOf(client.get(nodes, { name: "n1" }));
    expect(error.failure).toEqual({ kind: "unauthorized" });
    expect(error.retry).toBe("backoff");
    expect(proxy.requests.map(({ status }) => status)).toEqual([401, 401]);
  });

  it("that cannot be read is a failure of the credential, and no request is sent", async () => {
    await using folder = await createFolder();
    await using proxy = await startProxy();
    const credential = tokenFile(folder.at("none"));
    await using client = connect({ server: proxy.url, ca: cluster.ca, credential });
    const error = await errorOf(client.watch(nodes));
    expect(error.failure).toEqual({ kind: "credential" });
    expect(error.message).toContain(`the token file ${folder.at("none")} cannot be read: ENOENT`);
    expect(proxy.requests).toHaveLength(0);
  });
});

describe("a credential that is replaced", () => {
  it("is used by the next request, with its authority, and ends no watch", async () => {
    const { certificate: cert, key } = await cluster.authority.issueClient("someone", ["system:masters"]);
    const credential = replaceableCredential(bearerToken(cluster.adminToken), cluster.ca);
    await using client = connect({ server: cluster.url, credential });
    const scope = { namespace: "default" };
    const { metadata } = await client.list(configMaps, scope);
    await using watch = await client.watch(configMaps, {
      ...scope,
      resourceVersion: metadata.resourceVersion ?? "",
    });
    expect(await whoAmI(client)).toBe("admin");
    credential.replace(staticCredential({ certificate: { cert, key } }), cluster.ca);
    expect(await whoAmI(client)).toBe("someone");
    await client.create(configMaps, { metadata: { ...scope, name: "after-the-swap" } });
    expect(await watch[Symbol.asyncIterator]().next()).toMatchObject({
      value: { type: "ADDED", object: { metadata: { name: "after-the-swap" } } },
    });
    const other = await createAuthority();
    credential.replace(bearerToken(cluster.adminToken), other.certificate);
    const failure = { kind: "unreachable", tls: true };
    expect((await errorOf(whoAmI(client))).failure).toEqual(failure);
    expect((await errorOf(client.get(nodes, { name: "n1" }))).failure).toEqual(failure);
  });

  it("is asked again after a 401, and learns which of its parts was rejected", async () => {
    const rejected: unknown[] = [];
    const part = (name: string) => ({
      material: () => Promise.resolve({ authorization: name }),
      reject: (material: unknown) => void rejected.push(material),
    });
    const credential = replaceableCredential(part("one"));
    const one = await credential.material();
    credential.replace(part("two"), "CA");
    expect(await credential.material()).toEqual({ authorization: "two", ca: "CA" });
    credential.reject(one);
    expect(rejected).toEqual([{ authorization: "one" }]);
  });
});

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

describe("T-16 a kubeconfig", () => {
  it.each<[string, () => Promise<TestUser>]>([
    ["token", async () => cluster.admin],
    ["client certificate", () => cluster.user("certified", ["system:masters"])],
  ])("with a %s is all that it takes to connect", async (_, user) => {
    await using folder = await createFolder();
    const file = await folder.write("config", cluster.kubeconfig({ user: await user() }));
    const { connect: options } = await loadKubeconfig([file], { environment: {} });
    await using client = connect(options);
    expect(await whoAmI(client)).toBe((await user()).name);
    expect((await client.get(nodes, { name: "n1" })).metadata?.name).toBe("n1");
  });

  it("with tls-server-name accepts a certificate for that name, and without it refuses", async () => {
    await using folder = await createFolder();
    await using proxy = await startProxy(["api.internal"]);
    for (const server of [proxy.url, `https://localhost:${proxy.port}`]) {
      const text = cluster.kubeconfig({ server });
      const named = text.replace("    server:", "    tls-server-name: api.internal\n    server:");
      const plainFile = await folder.write("plain", text);
      const namedFile = await folder.write("named", named);
      await using plain = connect((await loadKubeconfig([plainFile], { environment: {} })).connect);
      await using right = connect((await loadKubeconfig([namedFile], { environment: {} })).connect);
      const error = await errorOf(plain.get(nodes, { name: "n1" }));
      expect(error.failure).toEqual({ kind: "unreachable", tls: true });
      expect(error.message).toMatch(/does not match certificate's altnames/);
      // Reads and writes connect by themselves.
      expect(await whoAmI(right)).toBe("admin");
      expect((await right.get(nodes, { name: "n1" })).metadata?.name).toBe("n1");
    }
  });

  it("without the server's CA does not trust the server, unless it is told to", async () => {
    const credential = bearerToken(cluster.adminToken);
    await using strict = connect({ server: cluster.url, credential });
    const error = await errorOf(strict.get(nodes, { name: "n1" }));
    expect(error.failure).toEqual({ kind: "unreachable", tls: true });
    await using careless = connect({ server: cluster.url, credential, insecure: true });
    expect(await whoAmI(careless)).toBe("admin");
  });
});

describe("T-16 an exec plugin", () => {
  const V1 = "client.authentication.k8s.io/v1";

  /** A kubeconfig whose plugin prints the file `answer`. */
  async function withPlugin(folder: Awaited<ReturnType<typeof createFolder>>) {
    await folder.write("plugin", `#!/bin/sh\ncat '${folder.at("answer")}'\n`, 0o700);
    const text = cluster.kubeconfig();
    const exec = `exec: { apiVersion: ${V1}, command: ./plugin, provideClusterInfo: true }`;
    const file = await folder.write("config", text.replace(/^ {4}token: .*$/m, `    ${exec}`));
    return loadKubeconfig([file], { environment: { PATH: "/usr/bin:/bin" } });
  }
  const answer = (status: object): string =>
    JSON.stringify({ apiVersion: V1, kind: "ExecCredential", status });

  it("may give client certificates; a new one takes a new connection, and a watch keeps the old", async () => {
    await using folder = await createFolder();
    // Over within the time that is kept for requests under way: so it is asked for each request.
    const expirationTimestamp = new Date(Date.now() + 25_000).toISOString();
    const certify = async (name: string): Promise<void> => {
      const { certificate, key } = await cluster.authority.issueClient(name, ["system:masters"]);
      const status = { clientCertificateData: certificate, clientKeyData: key, expirationTimestamp };
      await folder.write("answer", answer(status));
    };
    await certify("first");
    await using client = connect((await withPlugin(folder)).connect);
    expect(await whoAmI(client)).toBe("first");
    const { resourceVersion = "" } = (await client.list(nodes)).metadata;
    await using watch = await client.watch(nodes, { resourceVersion });
    await certify("second");
    expect(await whoAmI(client)).toBe("second");
    const next = watch[Symbol.asyncIterator]().next();
    const body = { metadata: { annotations: { seen: "by both" } } };
    await client.patch(nodes, { name: "n1" }, { type: "merge", body });
    expect((await next).value).toMatchObject({ type: "MODIFIED", object: body });
  });

  it("that hangs does not outlive the request", async () => {
    await using folder = await createFolder();
    const { connect: options } = await withPlugin(folder);
    await folder.write("plugin", "#!/bin/sh\nexec sleep 20\n", 0o700);
    await using client = connect(options);
    const error = await errorOf(client.get(nodes, { name: "n1" }, { timeoutMs: 200 }));
    expect(error.failure).toEqual({ kind: "timeout", afterMs: 200 });
    const signal = AbortSignal.timeout(50);
    expect((await errorOf(client.get(nodes, { name: "n1" }, { signal }))).failure).toEqual({
      kind: "aborted",
    });
  });
});

describe("T-11 a credential", () => {
  const SECRETS = ["s3cret-t0ken", "s3cret-stdout", "s3cret-body"];

  /** Everything there is to see: hidden properties, symbols, causes, at any depth. */
  const everything = (error: unknown): string =>
    inspect(error, {
      depth: 20,
      showHidden: true,
      maxArrayLength: null,
      maxStringLength: null,
      getters: true,
    });

  it("is in no error: not in its message, its stack, its causes, nor anything it refers to", async () => {
    await using folder = await createFolder();
    await using proxy = await startProxy();
    await using link = await startTcpProxy({ target: new URL(cluster.url) });
    const credential = bearerToken("s3cret-t0ken");
    const to = (server: string, ca = cluster.ca): KubeClient => connect({ server, ca, credential });
    await using proxied = to(proxy.url);
    await using linked = to(link.url);
    await using mistrusted = to(cluster.url, (await cluster.authority.issueServing(["x"])).certificate);
    const failures = [
      proxied.get(nodes, { name: "n1" }),
      proxied.watch(nodes),
      proxied.create(nodes, { metadata: { name: "n2", annotations: { a: "s3cret-body" } } }),
      mistrusted.get(nodes, { name: "n1" }),
      proxied.get(nodes, { name: "n1" }, { signal: AbortSignal.abort() }),
    ].map(errorOf);
    const seen = await Promise.all(failures);
    using _ = proxy.on({ verb: "list" }, garbage("truncated"));
    seen.push(await errorOf(proxied.list(nodes)));
    link.stall();
    const late = [linked.get(nodes, { name: "n1" }, { timeoutMs: 100 }), linked.list(nodes)].map(errorOf);
    seen.push(await (late[0] ?? errorOf(Promise.resolve())));
    link.refuse();
    link.resetAll();
    seen.push(...(await Promise.all(late)));
    seen.push(await errorOf(linked.get(nodes, { name: "n1" })));
    const kinds = new Set(seen.map(({ failure }) => failure.kind));
    expect([...kinds].sort()).toEqual(["aborted", "timeout", "unauthorized", "undecodable", "unreachable"]);
    const plugin = await folder.write(
      "plugin",
      "#!/bin/sh\necho s3cret-stdout; echo s3cret-stdout >&2; exit 1\n",
      0o700,
    );
    const user = `exec: { apiVersion: client.authentication.k8s.io/v1, command: ${plugin} }`;
    const file = await folder.write(
      "config",
      cluster.kubeconfig().replace(/^ {4}token: .*$/m, `    ${user}`),
    );
    await using executed = connect((await loadKubeconfig([file], { environment: {} })).connect);
    seen.push(await errorOf(executed.get(nodes, { name: "n1" })));
    for (const error of seen) {
      const text = everything(error);
      expect(SECRETS.filter((secret) => text.includes(secret))).toEqual([]);
      expect(text.toLowerCase()).not.toContain("bearer ");
    }
  });

  it("is in no client and no credential that is printed", async () => {
    const credentials = [
      bearerToken("s3cret-t0ken"),
      staticCredential({ certificate: { cert: "c", key: "s3cret-t0ken" } }),
    ];
    for (const credential of credentials) {
      await credential.material();
      await using client = connect({ server: cluster.url, credential });
      expect(everything(credential)).not.toContain("s3cret-t0ken");
      expect(everything(client)).not.toContain("s3cret-t0ken");
    }
  });
});
