import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { platformText } from "./platform.ts";
import { createWorld, failureOf, listing, named, startWorld } from "./testing/client-world.ts";
import { type ImageFormat, startFaultRegistry } from "./testing/fault-registry.ts";

const anonymous = { credentials: [] } as const;
const OCI_INDEX = "application/vnd.oci.image.index.v1+json";
const FORMATS: readonly (readonly [string, ImageFormat, string, string])[] = [
  ["OCI", "oci", OCI_INDEX, "application/vnd.oci.image.manifest.v1+json"],
  [
    "Docker",
    "docker",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
  ],
];

it.each(FORMATS)("A-P6 reads images of %s", async (_name, format, indexType, manifestType) => {
  await using world = await startWorld();
  const index = world.registry.index("a/b", "1", ["linux/amd64", "linux/arm/v7"], { format });
  const image = world.registry.image("a/c", "1", "linux/s390x", { format });
  const armv7 = { os: "linux", architecture: "arm", variant: "v7" };
  expect(await world.facts()).toEqual({
    digest: index,
    mediaType: indexType,
    platforms: [{ os: "linux", architecture: "amd64" }, armv7],
  });
  expect(await world.facts("a/c")).toEqual({
    digest: image,
    mediaType: manifestType,
    platforms: [{ os: "linux", architecture: "s390x" }],
  });
  // One request for an index, and one more for the config of an image.
  expect(world.asked).toEqual(["manifest 200", "manifest 200", "blob 200"]);
});

it("reads by digest, and by the digest where a tag is given as well", async () => {
  await using world = await startWorld();
  const digest = world.registry.index("a/b", "1", ["linux/arm64"]);
  const facts = await world.read({ ...named(world.registry.host, "a/b", digest), tag: "gone" }, anonymous);
  expect(facts.digest).toBe(digest);
  expect(world.registry.seen.map(({ path }) => path)).toEqual([`/v2/a/b/manifests/${digest}`]);
});

describe("what an index holds besides", () => {
  it("reads at most four children of an index that names no platform at all", async () => {
    await using world = await startWorld();
    const platforms = ["linux/amd64", "linux/arm64", "linux/s390x", "linux/ppc64le", "linux/riscv64"];
    world.registry.index("a/b", "1", platforms, { silent: true });
    const facts = await world.facts();
    expect(facts.platforms.map(platformText)).toEqual(platforms.slice(0, 4));
    expect(world.registry.requests).toMatchObject({ manifest: 5, blob: 4 });
  });

  it.each([
    ["no platform", { silent: true }],
    ["an attestation only", { attestations: true }],
  ] as const)("says that there is none where it names %s", async (_name, options) => {
    await using world = await startWorld();
    if ("silent" in options) world.registry.image("a/b", "1", "linux/amd64", options);
    else world.registry.index("a/b", "1", [], options);
    const error = await world.failure();
    expect(error).toMatchObject({ kind: "noPlatform", registry: world.registry.host });
  });
});

describe("the digest at present", () => {
  it("is asked for without reading the image", async () => {
    await using world = await startWorld();
    const digest = world.registry.index("a/b", "1", ["linux/amd64"]);
    expect(await world.digestOf(named(world.registry.host, "a/b"), anonymous)).toBe(digest);
    expect(world.asked).toEqual(["head 200"]);
  });

  it.each([
    ["has no HEAD", { does: "status", status: 405 }],
    ["does not say", { does: "headers", headers: { "docker-content-digest": undefined } }],
  ] as const)("is unknown where the registry %s", async (_name, fault) => {
    await using world = await startWorld();
    world.registry.index("a/b", "1", ["linux/amd64"]);
    using _fault = world.registry.inject(fault);
    expect(await world.digestOf(named(world.registry.host, "a/b"), anonymous)).toBeUndefined();
  });

  it("is no other than the one asked for", async () => {
    await using world = await startWorld();
    const digest = world.registry.index("a/b", "1", ["linux/amd64"]);
    const headers = { "docker-content-digest": `sha256:${"0".repeat(64)}` };
    using _fault = world.registry.inject({ does: "headers", headers });
    const error = await failureOf(world.digestOf(named(world.registry.host, "a/b", digest), anonymous));
    expect(error.kind).toBe("malformed");
  });
});

describe("A-B4 mirrors", () => {
  const asRegistry = (origin: string, mirrors: readonly string[]) =>
    ({ endpoints: { [new URL(origin).host]: { mirrors: mirrors.map((url) => ({ url })) } } }) as const;

  it("answer in place of the registry, below their path and told which registry is meant", async () => {
    await using registry = await startFaultRegistry();
    await using mirror = await startFaultRegistry();
    await using world = createWorld(asRegistry(registry.origin, [`${mirror.origin}/cache`]));
    mirror.index("cache/a/b", "1", ["linux/amd64"]);
    await world.read(named(registry.host, "a/b"), anonymous);
    expect(mirror.seen.map(({ path }) => path)).toEqual([
      `/v2/cache/a/b/manifests/1?ns=${encodeURIComponent(registry.host)}`,
    ]);
    expect(registry.seen).toEqual([]);
  });

  it.each([
    ["has no such image", undefined],
    ["fails", { does: "status", status: 500 }],
    ["hangs up", { does: "reset" }],
    ["sends something else", { does: "tamper" }],
  ] as const)("are passed over where one %s", async (_name, fault) => {
    await using registry = await startFaultRegistry();
    await using mirror = await startFaultRegistry();
    await using world = createWorld(asRegistry(registry.origin, [mirror.origin]));
    const digest = registry.index("a/b", "1", ["linux/amd64"]);
    if (fault !== undefined) {
      mirror.index("a/b", "1", ["linux/amd64"]);
      mirror.inject(fault);
    }
    expect(await world.read(named(registry.host, "a/b"), anonymous)).toMatchObject({ digest });
    expect(mirror.requests.manifest).toBe(1);
  });

  it("that swallow requests do not keep the registry from being asked, and cost their time once", async () => {
    await using registry = await startFaultRegistry();
    await using mirrors = new AsyncDisposableStack();
    const origins: string[] = [];
    for (let count = 0; count < 3; count += 1) {
      const mirror = mirrors.use(await startFaultRegistry());
      mirror.inject({ does: "silence" });
      origins.push(mirror.origin);
    }
    await using world = createWorld({
      ...asRegistry(registry.origin, origins),
      requestMs: 600,
      readMs: 900,
    });
    const digest = registry.index("a/b", "1", ["linux/amd64"]);
    const reading = () => world.read(named(registry.host, "a/b"), anonymous);
    expect((await failureOf(reading())).kind).toBe("unreachable");
    await reading().catch(() => undefined);
    expect(await reading()).toMatchObject({ digest });
    const asked = world.requests.length;
    expect(await reading()).toMatchObject({ digest });
    expect(world.requests.length - asked).toBe(1);
  });

  it("that fail to answer rest for 30 s, and are asked meanwhile where the registry cannot be reached", async () => {
    await using mirror = await startFaultRegistry();
    mirror.index("a/b", "1", ["linux/amd64"]);
    let time = 5;
    const nobody = "127.0.0.1:1";
    await using world = createWorld({
      endpoints: { [nobody]: { mirrors: [{ url: mirror.origin }] } },
      clock: { now: () => 0, monotonic: () => time },
    });
    const askedFor = async (repository: string): Promise<readonly string[]> => {
      const before = world.requests.length;
      const failed = await world.read(named(nobody, repository), anonymous).then(
        () => [],
        (error: unknown) => [String(error)],
      );
      return [...world.requests.slice(before).map(({ registry }) => registry), ...failed];
    };
    const why = expect.stringContaining(
      `${nobody}, or a server that it names, cannot be reached (and before it ${mirror.host} failed)`,
    );
    using _fault = mirror.inject({ does: "reset" }, { times: 2 });
    expect(await askedFor("a/b")).toEqual([mirror.host, nobody, why]);
    time += 29_999;
    expect(await askedFor("a/b")).toEqual([nobody, mirror.host, expect.any(String)]);
    time += 30_000;
    expect(await askedFor("a/b")).toEqual([mirror.host]);
  });

  it("are named when the registry fails as well", async () => {
    await using registry = await startFaultRegistry();
    await using mirror = await startFaultRegistry();
    await using world = createWorld(asRegistry(registry.origin, [mirror.origin]));
    const error = await failureOf(world.read(named(registry.host, "a/b"), anonymous));
    expect(error).toMatchObject({ kind: "notFound", registry: registry.host });
    expect(error.message).toContain(mirror.host);
  });

  it("never get the registry's credentials, and get their own", async () => {
    const users = { u: "registry-secret" };
    await using registry = await startFaultRegistry({ auth: { scheme: "basic", users } });
    await using mirror = await startFaultRegistry({
      auth: { scheme: "basic", users: { m: "mirror-secret" } },
    });
    const credentials = [{ username: "m", password: "wrong" }];
    const mirrors = [{ url: mirror.origin }, { url: mirror.origin, credentials }];
    await using world = createWorld({ endpoints: { [registry.host]: { mirrors } } });
    registry.index("a/b", "1", ["linux/amd64"]);
    await world.read(named(registry.host, "a/b"), {
      credentials: [{ username: "u", password: "registry-secret" }],
    });
    const sent = mirror.seen.flatMap(({ authorization }) => authorization ?? []);
    expect(sent).toEqual([`Basic ${Buffer.from("m:wrong").toString("base64")}`]);
    expect(registry.served.manifest).toBe(1);
  });
});

describe("giving up", () => {
  it("ends with the caller's signal", async () => {
    await using world = await startWorld();
    using _fault = world.registry.inject({ does: "silence" });
    const caller = new AbortController();
    const failure = world.failure("a/b", { ...anonymous, signal: caller.signal });
    while (world.registry.requests.manifest === 0) await setImmediate();
    caller.abort();
    expect(await failure).toMatchObject({ kind: "aborted" });
  });

  it("asks nothing for a caller that has gone", async () => {
    await using world = await startWorld();
    const signal = AbortSignal.abort();
    expect((await world.failure("a/b", { ...anonymous, signal })).kind).toBe("aborted");
    expect(world.registry.seen).toEqual([]);
  });

  it("ends what is under way when the client is disposed, and what comes later", async () => {
    await using registry = await startFaultRegistry();
    using _fault = registry.inject({ does: "silence" });
    const world = createWorld(listing(registry));
    const failure = failureOf(world.read(named(registry.host, "a/b"), anonymous));
    while (registry.requests.manifest === 0) await setImmediate();
    await world[Symbol.asyncDispose]();
    expect(await failure).toMatchObject({ kind: "aborted" });
    const later = await failureOf(world.read(named(registry.host, "a/b"), anonymous));
    expect(later.kind).toBe("aborted");
  });

  it.each([
    ["leads out of the repository", { repository: "a/../b" }],
    ["is empty", { repository: "" }],
    ["has a query", { repository: "a?b" }],
    ["has a tag that leads elsewhere", { tag: "../x" }],
    ["has a digest that is none", { digest: "sha256:x" }],
    ["has neither tag nor digest", { tag: undefined }],
  ] as const)("asks nothing for a reference that %s", async (_name, wrong) => {
    await using world = await startWorld();
    const { tag, ...rest } = { ...named(world.registry.host, "a/b"), ...wrong };
    const reference = tag === undefined ? rest : { ...rest, tag };
    expect((await failureOf(world.read(reference, anonymous))).kind).toBe("invalidName");
    expect(world.registry.seen).toEqual([]);
  });
});
