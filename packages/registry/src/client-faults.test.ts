import { describe, expect, it } from "vitest";
import type { RegistryFailureKind } from "./failure.ts";
import { createWorld, failureOf, listing, named, startWorld } from "./testing/client-world.ts";
import { type Fault, startFaultRegistry } from "./testing/fault-registry.ts";

const anonymous = { credentials: [] } as const;
const HASTE = { requestMs: 300, readMs: 20_000 } as const;
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const INDEX = "application/vnd.oci.image.index.v1+json";

describe("what goes wrong on the way", () => {
  it.each<readonly [string, Fault, RegistryFailureKind]>([
    ["401", { does: "status", status: 401 }, "unauthorized"],
    ["403", { does: "status", status: 403 }, "forbidden"],
    ["404", { does: "status", status: 404 }, "notFound"],
    ["406", { does: "status", status: 406 }, "malformed"],
    ["408", { does: "status", status: 408 }, "unreachable"],
    ["429", { does: "status", status: 429 }, "rateLimited"],
    ["500", { does: "status", status: 500 }, "serverError"],
    ["503", { does: "status", status: 503 }, "serverError"],
    ["299 without anything", { does: "status", status: 299 }, "malformed"],
    ["304 that nobody asked for", { does: "status", status: 304 }, "malformed"],
    ["the end of the connection", { does: "reset" }, "unreachable"],
    ["half of it", { does: "truncate" }, "unreachable"],
    ["what is not HTTP", { does: "babble" }, "unreachable"],
    ["headers without end", { does: "babble", bytes: longHeaders() }, "unreachable"],
    ["a page of HTML", { does: "garbage" }, "malformed"],
    ["nothing at all", { does: "garbage", bytes: Buffer.alloc(0) }, "malformed"],
    ["one byte that differs", { does: "tamper" }, "malformed"],
    ["another digest", { does: "headers", headers: { "docker-content-digest": digest("0") } }, "malformed"],
    ["no digest", { does: "headers", headers: { "docker-content-digest": "sha256:x" } }, "malformed"],
    ["compressed bytes", { does: "gzip", bytes: 100_000_000 }, "malformed"],
    ["100 MB, announced", { does: "flood", bytes: 100_000_000, announced: true }, "malformed"],
    ["100 MB, not announced", { does: "flood", bytes: 100_000_000, announced: false }, "malformed"],
  ])("calls %s by its name", async (_name, fault, kind) => {
    await using world = await startWorld();
    world.registry.index("a/b", "1", ["linux/amd64"]);
    using _fault = world.registry.inject(fault);
    const error = await world.failure();
    expect(error).toMatchObject({ kind, registry: world.registry.host });
    expect(error.message).toContain(`${world.registry.host}/a/b:1 cannot be read: `);
    expect(world.requests).toHaveLength(1);
  });

  it.each<readonly [string, Fault]>([
    ["says nothing", { does: "silence" }],
    ["stops in the middle", { does: "stall" }],
  ])("waits no longer than it should for a registry that %s", async (_name, fault) => {
    await using world = await startWorld({}, { ...HASTE });
    world.registry.index("a/b", "1", ["linux/amd64"]);
    using _fault = world.registry.inject(fault);
    expect((await world.failure()).kind).toBe("unreachable");
    expect(world.requests[0]?.why).toMatch(/0\.3 s/);
  });

  it("waits no longer for a whole read either", async () => {
    await using world = await startWorld({}, { requestMs: 10_000, readMs: 300 });
    using _fault = world.registry.inject({ does: "silence" });
    expect((await world.failure()).kind).toBe("unreachable");
  });

  it.each([true, false])("reads no more than it would need: announced %s", async (announced) => {
    await using world = await startWorld();
    world.registry.image("a/b", "1", "linux/amd64");
    const read = () => world.failure();
    using _config = world.registry.inject({ does: "flood", bytes: 100_000_000, announced }, { kind: "blob" });
    expect((await read()).message).toContain("more than 4194304 bytes");
    using _manifest = world.registry.inject(
      { does: "flood", bytes: 100_000_000, announced },
      { kind: "manifest" },
    );
    expect((await read()).message).toContain("more than 4194304 bytes");
  });

  it("does not believe a config that is another", async () => {
    await using world = await startWorld();
    world.registry.image("a/b", "1", "linux/amd64");
    using _fault = world.registry.inject({ does: "tamper" }, { kind: "blob" });
    const error = await world.failure();
    expect(error.kind).toBe("malformed");
    expect(error.message).toContain("digest");
  });

  it.each<readonly [string, string | undefined, number | undefined]>([
    ["seconds", "7", 7_000],
    ["nothing", undefined, undefined],
    ["nonsense", "later", undefined],
    ["a date", "Thu, 01 Jan 1970 00:00:40 GMT", 30_000],
  ])("says how long a registry wants to be left alone: %s", async (_name, header, retryAfterMs) => {
    await using world = await startWorld({}, { clock: { now: () => 10_000, monotonic: () => 0 } });
    const headers = header === undefined ? {} : { "retry-after": header };
    using _fault = world.registry.inject({ does: "status", status: 429, headers });
    const error = await world.failure();
    expect([error.kind, error.retryAfterMs]).toEqual(["rateLimited", retryAfterMs]);
  });

  it("says that nobody is there", async () => {
    const gone = await startFaultRegistry();
    await gone[Symbol.asyncDispose]();
    await using world = createWorld(listing(gone));
    const error = await failureOf(world.read(named(gone.host, "a/b"), anonymous));
    expect(error).toMatchObject({ kind: "unreachable", registry: gone.host });
    expect(world.requests[0]?.why).toBe(`${gone.host} refuses the connection`);
  });

  it("works again as soon as the registry does", async () => {
    await using world = await startWorld();
    const digest = world.registry.index("a/b", "1", ["linux/amd64"]);
    world.registry.inject({ does: "reset" }, { times: 2 });
    const read = () => world.facts();
    await failureOf(read());
    await failureOf(read());
    expect(await read()).toMatchObject({ digest });
  });
});

describe("manifests made to harm", () => {
  const entry = { mediaType: MANIFEST, digest: digest("1"), size: 1 };
  const config = { mediaType: "application/vnd.oci.image.config.v1+json", digest: digest("2"), size: 9 };
  const image = (of: object): unknown => ({ schemaVersion: 2, config: { ...config, ...of } });
  it.each<readonly [string, unknown, string, RegistryFailureKind]>([
    ["two meanings", { schemaVersion: 2, manifests: [], config, layers: [] }, INDEX, "malformed"],
    ["a config of a gigabyte", image({ size: 2 ** 30 }), MANIFEST, "malformed"],
    ["a config that is not there", image({}), MANIFEST, "notFound"],
    ["a chart", image({ mediaType: "application/vnd.cncf.helm.config.v1+json" }), MANIFEST, "noPlatform"],
    ["children that are not there", index([entry]), INDEX, "notFound"],
    ["an index in an index in itself", index([{ ...entry, mediaType: INDEX }]), INDEX, "noPlatform"],
  ])("%s", async (_name, manifest, mediaType, kind) => {
    await using world = await startWorld();
    world.registry.put("a/b", "1", manifest, mediaType);
    const error = await world.failure();
    expect(error).toMatchObject({ kind, registry: world.registry.host });
    expect(world.requests.length).toBeLessThanOrEqual(2);
  });

  function index(manifests: readonly unknown[]): unknown {
    return { schemaVersion: 2, mediaType: INDEX, manifests };
  }
});

function digest(digit: string): string {
  return `sha256:${digit.repeat(64)}`;
}

function longHeaders(): Buffer {
  return Buffer.from(`HTTP/1.1 200 OK\r\n${`x-long: ${"a".repeat(1000)}\r\n`.repeat(200)}`);
}
