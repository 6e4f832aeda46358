import { describe, expect, it } from "vitest";
import { failureOf, named, startPair, startWorld } from "./testing/client-world.ts";

const users = { amy: "secret" };
const credentials = [{ username: "amy", password: "secret" }];
const basic = { "www-authenticate": "Basic" };

describe("redirects", () => {
  it.each([301, 302, 303, 307, 308])(
    "%i to another server are followed, without credentials",
    async (status) => {
      await using world = await startPair({ scheme: "basic", users });
      const { registry, other: storage } = world;
      const digest = registry.image("a/b", "1", "linux/arm64");
      storage.image("a/b", "1", "linux/arm64");
      await world.facts("a/b", { credentials });
      const blob = registry.seen.find(({ kind }) => kind === "blob");
      registry.forget();
      using _fault = registry.inject(
        { does: "redirect", status, to: `${storage.origin}${blob?.path}?signature=1` },
        { kind: "blob" },
      );
      const facts = await world.facts("a/b", { credentials });
      expect(facts.digest).toBe(digest);
      expect(registry.seen.map(({ authorization }) => authorization !== undefined)).toEqual([true, true]);
      expect(storage.seen.map(({ authorization }) => authorization)).toEqual([undefined]);
      expect(world.asked.slice(3)).toEqual(["manifest 200", `blob ${status}`, "blob 200"]);
    },
  );

  it("on the same server keep them", async () => {
    await using world = await startWorld({ auth: { scheme: "basic", users } });
    world.registry.index("a/b", "1", ["linux/amd64"]);
    world.registry.index("c/d", "1", ["linux/arm64"]);
    using _fault = world.registry.inject(
      { does: "redirect", to: "/v2/c/d/manifests/1" },
      { repository: "a/b", kind: "manifest" },
    );
    const facts = await world.facts("a/b", { credentials });
    expect(facts.platforms).toEqual([{ os: "linux", architecture: "arm64" }]);
  });

  it("and back again do not bring them back", async () => {
    await using world = await startPair({ scheme: "basic", users });
    const { registry, other } = world;
    registry.index("a/b", "1", ["linux/amd64"]);
    registry.index("c/d", "1", ["linux/amd64"]);
    using _there = registry.inject(
      { does: "redirect", to: `${other.origin}/v2/a/b/manifests/1` },
      { repository: "a/b" },
    );
    using _back = other.inject({ does: "redirect", to: `${registry.origin}/v2/c/d/manifests/1` });
    const error = await world.failure("a/b", { credentials });
    expect(error.kind).toBe("unauthorized");
    expect(registry.seen.at(-1)?.authorization).toBeUndefined();
    expect(other.seen.at(-1)?.authorization).toBeUndefined();
  });

  it("within the other server do not bring them back either", async () => {
    await using world = await startPair({ scheme: "basic", users });
    const { registry, other } = world;
    registry.index("a/b", "1", ["linux/amd64"]);
    other.index("c/d", "1", ["linux/arm64"]);
    using _there = registry.inject(
      { does: "redirect", to: `${other.origin}/v2/a/b/manifests/1` },
      { times: 2 },
    );
    using _further = other.inject({ does: "redirect", to: "/v2/c/d/manifests/1" }, { repository: "a/b" });
    using _asked = registry.inject({ does: "status", status: 401, headers: basic }, { times: 1 });
    await world.facts("a/b", { credentials });
    expect(registry.seen.map(({ authorization }) => authorization !== undefined)).toEqual([false, true]);
    expect(other.seen.map(({ authorization }) => authorization)).toEqual([undefined, undefined]);
  });

  it("by digest end at what has that digest", async () => {
    await using world = await startWorld();
    const digest = world.registry.index("a/b", "1", ["linux/amd64"]);
    world.registry.index("a/b", "2", ["linux/arm64"]);
    using _fault = world.registry.inject({ does: "redirect", to: "/v2/a/b/manifests/2" }, { times: 1 });
    const error = await failureOf(world.read(named(world.registry.host, "a/b", digest), { credentials: [] }));
    expect(error.message).toContain("does not match its digest");
  });

  it("to a server that wants credentials are no reason to send it any", async () => {
    await using world = await startPair(undefined, { scheme: "basic", users });
    const { registry, other } = world;
    using _fault = registry.inject({ does: "redirect", to: `${other.origin}/v2/a/b/manifests/1` });
    const error = await world.failure("a/b", { credentials });
    expect(error.kind).toBe("unauthorized");
    expect(other.seen.map(({ authorization }) => authorization)).toEqual([undefined]);
    expect(other.requests.token).toBe(0);
  });

  it("of a token request to another server take no credentials along", async () => {
    await using world = await startPair({ scheme: "token", users }, { scheme: "token", users });
    const { registry, other } = world;
    using _fault = registry.inject({ does: "redirect", to: `${other.origin}/token` }, { kind: "token" });
    await world.failure("a/b", { credentials });
    expect(other.requests.token).toBe(1);
    expect(other.seen.map(({ authorization }) => authorization)).toEqual([undefined]);
  });

  it("of an identity token are not followed", async () => {
    await using world = await startPair({ scheme: "token", identityTokens: ["r"] });
    const { registry, other } = world;
    using _fault = registry.inject({ does: "redirect", to: `${other.origin}/token` }, { kind: "token" });
    await world.failure("a/b", { credentials: [{ identityToken: "r" }] });
    expect(other.seen).toEqual([]);
  });

  it.each([
    ["in a circle", { does: "circle" }, 2],
    ["for ever", { does: "circle", endless: true }, 9],
    ["nowhere", { does: "redirect", to: "http://" }, 1],
    ["to a file", { does: "redirect", to: "file:///etc/passwd" }, 1],
    ["to itself", { does: "redirect", to: "" }, 1],
    ["to a URL with a password", { does: "redirect", to: "https://a:b@c.invalid/" }, 1],
  ] as const)("%s are refused", async (_name, fault, requests) => {
    await using world = await startWorld();
    using _fault = world.registry.inject(fault);
    expect((await world.failure()).kind).toBe("malformed");
    expect(world.requests.length).toBeLessThanOrEqual(requests + 1);
  });
});
