import { isIP } from "node:net";
import { describe, expect, it } from "vitest";
import { createAuthority } from "../../testcluster/src/certificates.ts";
import { AddressGuard } from "./address-guard.ts";
import { Authorizer } from "./authorization.ts";
import { Deadline } from "./deadline.ts";
import { endpointsFor } from "./endpoints.ts";
import type { ExchangeError } from "./exchange-error.ts";
import { NameLookups } from "./name-lookups.ts";
import { createWorld, failureOf, listing, named, startWorld } from "./testing/client-world.ts";
import { startFaultRegistry } from "./testing/fault-registry.ts";
import { startListener } from "./testing/listener.ts";
import { TokenStore } from "./token.ts";
import { type Exchange, Transport } from "./transport.ts";

const anonymous = { credentials: [] } as const;

describe("S-5 an address", () => {
  const guard = new AddressGuard();
  const ruleOf = (address: string): string => {
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (guard.ofImages.check(address, family)) return "refused";
    return guard.ofPublic.check(address, family) ? "private" : "public";
  };

  const rules = {
    refused: `
      127.0.0.1 127.255.255.254 0.0.0.0 :: ::1 ::127.0.0.1 fe80::1 fd00:ec2::254 100.100.100.200
      168.63.129.16 169.254.0.1 169.254.169.254 ::ffff:127.0.0.1 ::ffff:7f00:1 0:0:0:0:0:ffff:a9fe:a9fe
      ::ffff:168.63.129.16 64:ff9b::169.254.169.254 64:ff9b::7f12:3456 2002:7f00:1:: 64:ff9b:1::a9fe:a9fe
      ::ffff:0:a9fe:a9fe 2001:0:1::1 ff02::1 224.0.0.1 255.255.255.255 198.18.0.1 2002:a83f:8110::1`,
    private: `
      10.0.0.1 ::ffff:10.0.0.1 64:ff9b::10.1.2.3 2002:c0a8:101:: 172.31.255.255 192.168.1.1 100.64.0.1
      fd12::1`,
    public: `
      2001:db8::1 8.8.8.8 172.32.0.1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2a00:1450::1`,
  };

  it.each(
    Object.entries(rules).flatMap(([rule, addresses]) =>
      addresses
        .trim()
        .split(/\s+/)
        .map((address) => [address, rule] as const),
    ),
  )("%s is %s", (address, rule) => {
    expect(ruleOf(address)).toBe(rule);
    expect(guard.isPublic(address)).toBe(rule === "public");
  });

  it("that is link-local has its zone with it, and one that is unknown counts as public", () => {
    expect([guard.isPublic("fe80::1%eth0"), guard.isPublic(undefined)]).toEqual([false, true]);
  });
});

/** Here 127.0.0.2 is the address that is not public, or not allowed. */
function transportWith(guard: AddressGuard, names?: NameLookups): Transport {
  const options = {
    userAgent: "test",
    requestMs: 2_000,
    onRequest: () => undefined,
    listed: new Set<string>(),
  };
  return new Transport({ ...options, guard, ...(names && { names }) });
}

function exchangeWith(host: string): Exchange {
  const [endpoint] = endpointsFor(host, { plainHttp: true });
  if (endpoint === undefined) throw new Error("no endpoint");
  const asked = { kind: "manifest", method: "GET", accept: "*/*", maxBytes: 1_000 } as const;
  return { ...asked, endpoint, url: `${endpoint.origin}/`, byPublic: false, authorization: undefined };
}

it.each([
  ["public", "127.0.0.1", false],
  ["private", "127.0.0.2", true],
])("S-5 a private address as a redirect or realm of a %s host (%s): %s", async (_what, host, isReached) => {
  const guard = new AddressGuard([], ["127.0.0.2/32"]);
  await using inside = await startListener();
  await using outside = await startListener(`location: http://127.0.0.2:${inside.port}/`);
  const transport = transportWith(guard);
  const signal = new AbortController().signal;
  const exchange = exchangeWith(`${host}:${outside.port}`);
  const sent = await transport.send(exchange, signal).then(
    ({ status }) => status,
    ({ kind, elsewhere }: ExchangeError) => ({ kind, elsewhere }),
  );
  expect(sent).toEqual(isReached ? 404 : { kind: "unreachable", elsewhere: true });
  expect(inside.connections).toBe(isReached ? 1 : 0);

  const { status, fromPublic } = await transport.send({ ...exchange, method: "POST", form: "" }, signal);
  expect([status, fromPublic]).toEqual([307, !isReached]);
  const tokens = new TokenStore(transport, { now: () => 0, monotonic: () => 0 }, signal);
  const asker = { endpoint: exchange.endpoint, repository: "a/b", credential: undefined };
  const headers = { "www-authenticate": `Bearer realm="https://127.0.0.2:${inside.port}/token"` };
  using deadline = new Deadline(5_000);
  const asked = new Authorizer(tokens).after(
    asker,
    { headers, fromPublic },
    { header: undefined, fresh: false },
    deadline,
  );
  await expect(asked).rejects.toMatchObject({ kind: "unreachable" });
  expect(inside.connections).toBe(isReached ? 2 : 0);
  await transport.close();
});

it("S-5 the address that is connected to counts, whatever the name was resolved to before", async () => {
  await using listener = await startListener();
  let address = "127.0.0.1";
  const names = new NameLookups(1_000, (_name, { all }, done) =>
    all ? done(null, [{ address, family: 4 }]) : done(null, address, 4),
  );
  const transport = transportWith(new AddressGuard(["127.0.0.2/32"], []), names);
  const exchange = exchangeWith(`rebinding.example:${listener.port}`);
  const { signal } = new AbortController();
  expect((await transport.send(exchange, signal)).status).toBe(404);
  address = "127.0.0.2";
  await expect(transport.send(exchange, signal)).rejects.toMatchObject({ kind: "unreachable" });
  expect(listener.connections).toBe(1);
  await transport.close();
});

describe("S-5 an image whose registry is this machine", () => {
  const names =
    "127.0.0.1 127.1.2.3 localhost 2130706433 0x7f.1 0.0.0.0 [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1]";

  it.each(names.split(" "))(
    "%s gets no connection, by http or https, and a redirect there neither",
    async (host) => {
      await using listener = await startListener();
      await using world = await startWorld();
      const direct = await failureOf(world.read(named(`${host}:${listener.port}`, "a/b"), anonymous));
      expect(direct.kind).toBe("unreachable");
      for (const scheme of ["http", "https"]) {
        using _fault = world.registry.inject({
          does: "redirect",
          to: `${scheme}://${host}:${listener.port}/`,
        });
        const sent = await world.failure();
        expect(sent.kind).toBe("unreachable");
      }
      expect(listener.connections).toBe(0);
    },
  );

  it("gets one where the configuration lists the host, by http or https", async () => {
    const authority = await createAuthority();
    const tls = await authority.issueServing(["127.0.0.1"]);
    await using plain = await startFaultRegistry();
    await using secure = await startFaultRegistry({ tls });
    const ca = authority.certificate;
    await using world = createWorld({ endpoints: { [plain.host]: {}, [secure.host]: { ca } } });
    for (const registry of [plain, secure]) {
      registry.index("a/b", "1", ["linux/amd64"]);
      expect(await world.read(named(registry.host, "a/b"), anonymous)).toMatchObject({ platforms: [{}] });
    }
  });
});

it("S-5 a failure to reach a host does not say whether anything listens there", async () => {
  await using registry = await startFaultRegistry();
  await using closed = await startFaultRegistry();
  await using world = createWorld({ ...listing(registry, closed), requestMs: 300 });
  const messages = new Set<string>();
  const ask = async (host: string): Promise<void> => {
    const { message, kind } = await failureOf(world.read(named(host, "a/b"), anonymous));
    messages.add(`${kind} ${message.replaceAll(host, "HOST")}`);
  };
  await closed[Symbol.asyncDispose]();
  for (const host of [closed.host, "127.0.0.1:1", "[::ffff:a9fe:a9fe]", "name.invalid"]) await ask(host);
  for (const fault of ["reset", "silence", "babble", "truncate"] as const) {
    registry.index("a/b", "1", ["linux/amd64"]);
    using _fault = registry.inject({ does: fault });
    await ask(registry.host);
  }
  using _fault = registry.inject({ does: "redirect", to: "https://10.255.255.1.invalid/" });
  await ask(registry.host);
  expect([...messages]).toHaveLength(1);
  expect(world.requests.filter(({ why }) => why === undefined)).toHaveLength(1);
});
