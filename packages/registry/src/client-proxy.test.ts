/** Registries behind a proxy that carries all connections. */
import { describe, expect, it } from "vitest";
import { createAuthority } from "../../testcluster/src/certificates.ts";
import { type ForwardProxy, startForwardProxy } from "../../testcluster/src/fault/forward-proxy.ts";
import { startTcpProxy } from "../../testcluster/src/fault/tcp-proxy.ts";
import type { RegistryClientOptions } from "./client.ts";
import { type ClientWorld, createWorld, failureOf, named } from "./testing/client-world.ts";
import { good, SECRET, users } from "./testing/credentials-world.ts";
import {
  type FaultRegistry,
  type FaultRegistryOptions,
  startFaultRegistry,
} from "./testing/fault-registry.ts";

const HOST = "registry.example";
const anonymous = { credentials: [] } as const;

interface Behind extends AsyncDisposable {
  readonly registry: FaultRegistry;
  readonly ca: string;
  /** The place of the registry for a proxy. */
  readonly hosts: Readonly<Record<string, string>>;
  client(proxy: { readonly url: string }, more?: RegistryClientOptions): ClientWorld;
}

/** A registry that only a proxy finds, as its name does not resolve. */
async function startBehind(auth?: FaultRegistryOptions["auth"]): Promise<Behind> {
  const authority = await createAuthority();
  const tls = await authority.issueServing([HOST, "127.0.0.1"]);
  const registry = await startFaultRegistry({ tls, ...(auth && { auth }) });
  registry.index("a/b", "1", ["linux/amd64"]);
  const ca = authority.certificate;
  return {
    registry,
    ca,
    hosts: { [`${HOST}:443`]: registry.host },
    client: ({ url }, more) => createWorld({ endpoints: { [HOST]: { ca } }, proxyFor: () => url, ...more }),
    [Symbol.asyncDispose]: () => registry[Symbol.asyncDispose](),
  };
}

const whyOf = ({ requests }: ClientWorld): string | undefined => requests.at(-1)?.why;
const hostOf = ({ port }: ForwardProxy): string => `127.0.0.1:${port}`;

describe("a proxy", () => {
  it("carries https in a tunnel, also to a name that only it resolves", async () => {
    await using behind = await startBehind({ scheme: "basic", users });
    await using proxy = await startForwardProxy({ hosts: behind.hosts });
    await using client = behind.client(proxy);
    const facts = await client.read(named(HOST, "a/b"), { credentials: [good] });
    expect(facts.platforms).toEqual([{ os: "linux", architecture: "amd64" }]);
    expect(new Set(proxy.requests)).toEqual(new Set([`CONNECT ${HOST}:443`]));
    expect(behind.registry.served.manifest).toBe(1);
  });

  it("that speaks https itself must have a certificate of an authority of the system", async () => {
    await using behind = await startBehind();
    const certificate = await (await createAuthority()).issueServing(["127.0.0.1"]);
    await using proxy = await startForwardProxy({ hosts: behind.hosts, certificate });
    await using client = behind.client(proxy);
    await failureOf(client.read(named(HOST, "a/b"), anonymous));
    expect(whyOf(client)).toContain("authority that is not trusted");
    expect(proxy.requests).toEqual([]);
  });

  it("forwards plain http", async () => {
    await using registry = await startFaultRegistry();
    registry.index("a/b", "1", ["linux/amd64"]);
    await using proxy = await startForwardProxy({ hosts: { "plain.example": registry.host } });
    await using client = createWorld({
      endpoints: { "plain.example": { plainHttp: true } },
      proxyFor: () => proxy.url,
    });
    await client.read(named("plain.example", "a/b"), anonymous);
    expect(proxy.requests).toContain("GET http://plain.example/v2/a/b/manifests/1");
  });

  it("that wants a login gets the one of its URL, and the registry does not", async () => {
    await using behind = await startBehind();
    const user = { name: "me@corp", password: SECRET };
    await using proxy = await startForwardProxy({ hosts: behind.hosts, user });
    await using client = behind.client(proxy);
    await client.read(named(HOST, "a/b"), anonymous);
    expect(JSON.stringify(behind.registry.seen)).not.toContain("proxy-auth");
    for (const url of [`http://${hostOf(proxy)}`, `http://me:wrong@${hostOf(proxy)}`]) {
      await using other = behind.client({ url });
      const error = await failureOf(other.read(named(HOST, "a/b"), anonymous));
      expect(error.kind).toBe("unreachable");
      expect(whyOf(other)).toBe(
        `${HOST} cannot be reached: the proxy ${hostOf(proxy)} wants a login, or another one`,
      );
      expect(JSON.stringify([error.message, other.requests])).not.toContain("wrong");
    }
  });

  it("that wants a login for plain http says so as well", async () => {
    await using proxy = await startForwardProxy({ user: { name: "me", password: SECRET } });
    await using client = createWorld({
      endpoints: { "plain.example": { plainHttp: true } },
      proxyFor: () => `http://${hostOf(proxy)}`,
    });
    await failureOf(client.read(named("plain.example", "a/b"), anonymous));
    expect(whyOf(client)).toContain("wants a login, or another one");
  });

  it("that refuses, leads nowhere, or is away makes the registry unreachable", async () => {
    await using behind = await startBehind();
    await using refusing = await startForwardProxy({ status: 403 });
    await using lost = await startForwardProxy({ hosts: { [`${HOST}:443`]: "127.0.0.1:1" } });
    const away = await startForwardProxy();
    await away[Symbol.asyncDispose]();
    for (const [proxy, why] of [
      [refusing, "refuses with status 403"],
      [lost, "refuses with status 502"],
      [away, "refuses the connection"],
    ] as const) {
      await using client = behind.client(proxy);
      expect(await failureOf(client.read(named(HOST, "a/b"), anonymous))).toMatchObject({
        kind: "unreachable",
      });
      expect(whyOf(client)).toBe(`${HOST} cannot be reached: the proxy ${hostOf(proxy)} ${why}`);
    }
  });

  it("that leads to itself, or says nothing, costs the time limit and no more", async () => {
    await using behind = await startBehind();
    await using looping = await startForwardProxy({ status: 302 });
    await using target = await startForwardProxy();
    await using silent = await startTcpProxy({ target: new URL(target.url) });
    silent.drop();
    await using loop = behind.client(looping);
    await failureOf(loop.read(named(HOST, "a/b"), anonymous));
    expect(looping.requests.length).toBeLessThan(5);
    await using client = behind.client({ url: `http://127.0.0.1:${silent.port}` }, { requestMs: 200 });
    for (const _ of [1, 2]) {
      await failureOf(client.read(named(HOST, "a/b"), anonymous));
      expect(whyOf(client)).toContain(`the proxy 127.0.0.1:${silent.port}`);
    }
  });

  it("is not asked for a forbidden address, and not for a private one that a registry leads to", async () => {
    await using behind = await startBehind();
    await using proxy = await startForwardProxy({ hosts: behind.hosts });
    await using client = behind.client(proxy);
    for (const host of ["169.254.169.254", "[fd00:ec2::254]", "127.0.0.1:1"]) {
      await failureOf(client.read(named(host, "a/b"), anonymous));
      expect(whyOf(client)).toContain("address that is connected to only if");
    }
    behind.registry.inject({ does: "redirect", to: "https://10.0.0.1/v2/a/b/manifests/1" });
    await failureOf(client.read(named(HOST, "a/b"), anonymous));
    expect(whyOf(client)).toContain("address that is connected to only if");
    expect(new Set(proxy.requests)).toEqual(new Set([`CONNECT ${HOST}:443`]));
  });

  it("is not used where none is named", async () => {
    await using behind = await startBehind();
    const { host } = behind.registry;
    await using proxy = await startForwardProxy();
    const { url } = proxy;
    await using client = createWorld({
      endpoints: { [host]: { ca: behind.ca } },
      proxyFor: (server) => (server.host === host ? undefined : url),
    });
    await client.read(named(host, "a/b"), anonymous);
    expect(proxy.requests).toEqual([]);
  });
});
