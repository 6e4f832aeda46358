import { describe, expect, it } from "vitest";
import { createAuthority, type KeyPair } from "../../testcluster/src/certificates.ts";
import { createWorld, failureOf, named } from "./testing/client-world.ts";
import { startFaultRegistry } from "./testing/fault-registry.ts";

const anonymous = { credentials: [] } as const;

async function withCertificate(
  hosts: readonly string[],
): Promise<{ readonly ca: string; readonly tls: KeyPair }> {
  const authority = await createAuthority();
  return { ca: authority.certificate, tls: await authority.issueServing(hosts) };
}

describe("https", () => {
  it("A-B4 is spoken with an authority that is configured for the registry", async () => {
    const { ca, tls } = await withCertificate(["127.0.0.1"]);
    await using registry = await startFaultRegistry({ tls, auth: { scheme: "token", isPublic: () => true } });
    await using world = createWorld({ endpoints: { [registry.host]: { ca } } });
    registry.image("a/b", "1", "linux/amd64");
    await world.read(named(registry.host, "a/b"), anonymous);
    expect(world.asked).toEqual(["manifest 401", "token 200", "manifest 200", "blob 200"]);
  });

  it("is not spoken with an authority that nobody trusts, and sends it nothing", async () => {
    const { tls } = await withCertificate(["127.0.0.1"]);
    await using registry = await startFaultRegistry({ tls });
    await using world = createWorld({ endpoints: { [registry.host]: { plainHttp: false } } });
    const error = await failureOf(world.read(named(registry.host, "a/b"), anonymous));
    expect(error.kind).toBe("unreachable");
    expect(error.message).not.toContain("certificate");
    expect(world.requests[0]?.why).toContain("authority that is not trusted");
    expect(registry.seen).toEqual([]);
  });

  it("is not spoken with an authority that is trusted for another registry", async () => {
    const { ca, tls } = await withCertificate(["127.0.0.1"]);
    await using registry = await startFaultRegistry({ tls });
    await using other = await startFaultRegistry({ tls });
    await using world = createWorld({
      endpoints: { [other.host]: { ca }, [registry.host]: { plainHttp: false } },
    });
    other.index("a/b", "1", ["linux/amd64"]);
    await world.read(named(other.host, "a/b"), anonymous);
    expect(await failureOf(world.read(named(registry.host, "a/b"), anonymous))).toMatchObject({
      kind: "unreachable",
    });
  });

  it("is not spoken with a certificate for another name", async () => {
    const { ca, tls } = await withCertificate(["registry.example"]);
    await using registry = await startFaultRegistry({ tls });
    await using world = createWorld({ endpoints: { [registry.host]: { ca } } });
    await failureOf(world.read(named(registry.host, "a/b"), anonymous));
    expect(world.requests[0]?.why).toContain("certificate for another name");
  });

  it("says when the other side does not speak it", async () => {
    await using registry = await startFaultRegistry();
    await using world = createWorld({ endpoints: { [registry.host]: { plainHttp: false } } });
    const { message } = await failureOf(world.read(named(registry.host, "a/b"), anonymous));
    expect(message).toBe(
      `${registry.host}/a/b:1 cannot be read: ${registry.host} does not speak https. If it speaks plain http, set plainHttp of this registry in its endpoint`,
    );
    expect(world.requests[0]?.why).toContain("does not speak https");
  });

  it("is not left for plain http, neither by a redirect nor for a token", async () => {
    const { ca, tls } = await withCertificate(["127.0.0.1"]);
    await using plain = await startFaultRegistry({ auth: { scheme: "token" } });
    const auth = { scheme: "token", realm: `${plain.origin}/token` } as const;
    await using registry = await startFaultRegistry({ tls, auth });
    await using world = createWorld({ endpoints: { [registry.host]: { ca } } });
    const read = () => failureOf(world.read(named(registry.host, "a/b"), anonymous));
    expect((await read()).message).toContain("from https to plain http");
    using _fault = registry.inject({ does: "redirect", to: `${plain.origin}/v2/a/b/manifests/1` });
    expect((await read()).message).toContain("from https to plain http");
    expect(plain.seen).toEqual([]);
  });

  it("is not left for plain http again once a registry of plain http has led there", async () => {
    const { ca, tls } = await withCertificate(["127.0.0.1"]);
    await using secure = await startFaultRegistry({ tls });
    await using registry = await startFaultRegistry();
    await using world = createWorld({
      endpoints: { [registry.host]: { ca, plainHttp: true }, [secure.host]: { ca } },
    });
    using _there = registry.inject({ does: "redirect", to: `${secure.origin}/v2/a/b/manifests/1` });
    using _back = secure.inject({ does: "redirect", to: `${registry.origin}/v2/c/d/manifests/1` });
    const error = await failureOf(world.read(named(registry.host, "a/b"), anonymous));
    expect(error.message).toContain("from https to plain http");
    expect([registry.requests.manifest, secure.requests.manifest]).toEqual([1, 1]);
  });
});
