import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createWorld, failureOf, listing, named, startPair } from "./testing/client-world.ts";
import { fill, good, SECRET, users, withTokens, worldWith, wrong } from "./testing/credentials-world.ts";
import { startFaultRegistry } from "./testing/fault-registry.ts";
import type { RegistryCredential } from "./types.ts";

describe("A-B4 names and passwords", () => {
  it("are sent once the registry has asked for that repository, and at once from then on", async () => {
    await using world = await worldWith({ scheme: "basic", users });
    await world.facts("a/b", { credentials: [good] });
    await world.facts("a/b", { credentials: [good] });
    await world.facts("a/c", { credentials: [good] });
    expect(world.asked).toEqual(
      "manifest 401, manifest 200, manifest 200, manifest 401, manifest 200".split(", "),
    );
    expect(world.registry.seen[0]?.authorization).toBeUndefined();
  });

  it("are tried in order", async () => {
    await using world = await worldWith({ scheme: "basic", users });
    const credentials = [wrong, { username: "bob", password: "x" }, good];
    await world.facts("a/b", { credentials });
    const sent = world.registry.seen.flatMap(({ authorization }) => authorization ?? []);
    expect(sent.map((text) => Buffer.from(text.slice(6), "base64").toString())).toEqual([
      "amy:wrong-secret",
      "bob:x",
      `amy:${SECRET}`,
    ]);
  });

  it("are counted, and not shown, when none of them helps", async () => {
    await using world = await worldWith({ scheme: "basic", users });
    const credentials = [wrong, { username: "amy", password: "also-wrong" }];
    const error = await world.failure("a/b", { credentials });
    expect(error.kind).toBe("unauthorized");
    expect(error.message).toContain("(2)");
  });

  it("are not needed for what is public", async () => {
    await using world = await worldWith({ scheme: "basic", users, isPublic: (name) => name === "a/c" });
    await world.failure();
    await world.facts("a/c");
    expect(world.asked).toEqual(["manifest 401", "manifest 200"]);
  });

  it("are no help where a token is wanted that they cannot get", async () => {
    await using world = await worldWith({ scheme: "basic", users });
    const error = await world.failure("a/b", { credentials: [{ identityToken: "refresh" }] });
    expect(error.kind).toBe("unauthorized");
    expect(world.registry.requests.token).toBe(0);
  });
});

describe("tokens", () => {
  it("are got for nobody in particular", async () => {
    await using world = await worldWith(withTokens({ isPublic: () => true }));
    await world.facts();
    expect(world.asked).toEqual(fetched);
    const token = world.registry.seen.find(({ kind }) => kind === "token");
    expect(token?.authorization).toBeUndefined();
    const query = new URL(token?.path ?? "", world.registry.origin).searchParams;
    expect([query.get("service"), query.get("scope")]).toEqual(['fault, "registry"', "repository:a/b:pull"]);
  });

  const fetched = ["manifest 401", "token 200", "manifest 200"];

  it("A-B5 are used again, and S-4 asked for each repository only when it has said where", async () => {
    await using world = await worldWith(withTokens());
    const credentials = [good];
    await world.facts("a/b", { credentials });
    await world.facts("a/b", { credentials });
    await world.digestOf(named(world.registry.host, "a/b"), { credentials });
    await world.facts("a/c", { credentials });
    expect(world.asked).toEqual([fetched, ["manifest 200", "head 200"], fetched].flat());
  });

  it("A-B5 are asked for once by many at the same time", async () => {
    await using world = await worldWith(withTokens());
    const read = () => world.facts("a/b", { credentials: [good] });
    await Promise.all(Array.from({ length: 20 }, read));
    expect(world.registry.requests.token).toBe(1);
    expect(world.registry.served.manifest).toBe(20);
  });

  it("go on for the others when the one who asked gives up", async () => {
    await using world = await worldWith(withTokens());
    const held = world.registry.inject({ does: "silence" }, { kind: "token" });
    const caller = new AbortController();
    const reference = named(world.registry.host, "a/b");
    const first = failureOf(world.read(reference, { credentials: [good], signal: caller.signal }));
    while (world.registry.requests.token === 0) await setImmediate();
    const second = world.read(reference, { credentials: [good] });
    caller.abort();
    expect(await first).toMatchObject({ kind: "aborted" });
    held[Symbol.dispose]();
    await second;
    expect(world.registry.requests.token).toBe(1);
  });

  it("are not shared by credentials", async () => {
    await using world = await worldWith(withTokens({ users: { ...users, bob: "b" } }));
    await world.facts("a/b", { credentials: [good] });
    await world.facts("a/b", { credentials: [{ username: "bob", password: "b" }] });
    await world.failure();
    expect(world.registry.requests.token).toBe(3);
  });

  it.each([
    ["for as long as they say, less a margin", 300, 289_000, 291_000],
    ["for a minute where they do not say", undefined, 49_000, 51_000],
    ["for no more than an hour", 1_000_000, 3_589_000, 3_591_000],
    ["for a moment where they say so", 6, 4_900, 5_100],
  ] as const)("are kept %s", async (_name, seconds, beforeMs, afterMs) => {
    let time = 0;
    await using world = await worldWith(withTokens(seconds === undefined ? {} : { expiresInS: seconds }), {
      clock: { now: () => 0, monotonic: () => time },
    });
    const read = () => world.facts("a/b", { credentials: [good] });
    await read();
    time = beforeMs;
    await read();
    expect(world.registry.requests.token).toBe(1);
    time = afterMs;
    await read();
    expect(world.registry.requests).toMatchObject({ token: 2, manifest: 4 });
  });

  it("are replaced when they are refused before their time", async () => {
    const auth = withTokens();
    await using world = await worldWith(auth);
    const read = () => world.facts("a/b", { credentials: [good] });
    await read();
    world.registry.protect(auth);
    await read();
    expect(world.asked.slice(3)).toEqual(["manifest 401", "token 200", "manifest 200"]);
  });

  it("are not asked for again when a fresh one is refused: the image is private, or not there", async () => {
    await using world = await worldWith(withTokens());
    const error = await world.failure();
    expect(error.kind).toBe("unauthorized");
    expect(error.message).toMatch(/does not exist, or it is private.*credentials for 127\.0\.0\.1/);
    expect(world.asked).toEqual(["manifest 401", "token 200", "manifest 401"]);
  });

  it("are got for an identity token by a form", async () => {
    await using world = await worldWith(withTokens({ identityTokens: ["refresh+&="] }));
    await world.facts("a/b", { credentials: [{ identityToken: "refresh+&=" }] });
    const sent = new URLSearchParams(world.registry.seen.find(({ kind }) => kind === "token")?.form);
    expect(Object.fromEntries(sent)).toMatchObject({
      grant_type: "refresh_token",
      refresh_token: "refresh+&=",
      scope: "repository:a/b:pull",
    });
  });

  it("that are a credential are sent as they are, and never exchanged", async () => {
    await using world = await worldWith(withTokens({ registryTokens: ["as-it-is"] }));
    await world.facts("a/b", { credentials: [{ registryToken: "as-it-is" }] });
    const refused = world.failure("a/b", { credentials: [{ registryToken: "no" }] });
    expect(await refused).toMatchObject({ kind: "unauthorized" });
    expect(world.asked).toEqual(["manifest 200", "manifest 401"]);
  });

  it("S-4 of one scope for everything are asked for once for each repository", async () => {
    await using world = await worldWith(withTokens({ scope: "aws" }));
    await world.facts("a/b", { credentials: [good] });
    await world.facts("a/b", { credentials: [good] });
    await world.facts("a/c", { credentials: [good] });
    expect(world.registry.requests.token).toBe(2);
    expect(world.registry.seen.findLast(({ kind }) => kind === "token")?.path).toMatch(/[?&]scope=aws(&|$)/);
  });

  it("are tried for by the next credential when the service refuses one", async () => {
    await using world = await worldWith(withTokens());
    await world.facts("a/b", { credentials: [wrong, good] });
    expect(world.asked).toEqual(["manifest 401", "token 401", "manifest 401", "token 200", "manifest 200"]);
  });

  it.each([
    ["429", { does: "status", status: 429, headers: { "retry-after": "9" } }, "rateLimited"],
    ["500", { does: "status", status: 500 }, "serverError"],
    ["403", { does: "status", status: 403 }, "forbidden"],
    ["404", { does: "status", status: 404 }, "malformed"],
    ["garbage", { does: "garbage" }, "malformed"],
    ["with a line break", { does: "garbage", bytes: Buffer.from('{"token":"a\\r\\nb"}') }, "malformed"],
    ["without a token", { does: "garbage", bytes: Buffer.from("{}") }, "malformed"],
    ["with null", { does: "garbage", bytes: Buffer.from("null") }, "malformed"],
    ["without end", { does: "flood", bytes: 100_000_000, announced: false }, "malformed"],
    ["by hanging up", { does: "reset" }, "unreachable"],
    ["by sending elsewhere", { does: "redirect", to: "https://elsewhere.invalid/token?x=1" }, "unreachable"],
  ] as const)("that are answered %s are a failure with a name", async (_name, fault, kind) => {
    await using world = await worldWith(withTokens());
    using _fault = world.registry.inject(fault, { kind: "token" });
    const error = await world.failure("a/b", { credentials: [good] });
    expect(error.kind).toBe(kind);
    expect(error.retryAfterMs).toBe(kind === "rateLimited" ? 9_000 : undefined);
  });

  it("are asked for where the service is now, after it has moved", async () => {
    let time = 0;
    await using old = await startFaultRegistry({ auth: withTokens() });
    await using registry = fill(
      await startFaultRegistry({ auth: withTokens({ realm: `${old.origin}/token` }) }),
    );
    await using world = createWorld({
      ...listing(old, registry),
      clock: { now: () => 0, monotonic: () => time },
    });
    const read = () => world.read(named(registry.host, "a/b"), { credentials: [good] });
    await failureOf(read());
    registry.protect(withTokens());
    using _gone = old.inject({ does: "reset" }, { kind: "token" });
    time = 3_600_000;
    await failureOf(read());
    await read();
    expect(registry.requests.token).toBe(1);
  });
});

it.each([
  ["plain http elsewhere", "http://tokens.invalid/token"],
  ["no URL", "token"],
  ["a file", "file:///etc/passwd"],
  ["a URL with a password", "https://u:p@tokens.invalid/"],
  ["nothing", ""],
])("realms that are %s get nothing", async (_name, realm) => {
  await using world = await worldWith(withTokens({ realm }));
  expect((await world.failure("a/b", { credentials: [good] })).kind).toBe("malformed");
  expect(world.asked).toEqual(["manifest 401"]);
});

describe("S-4 a realm that one repository names", () => {
  const realmAt = (origin: string) => ({
    does: "status" as const,
    status: 401,
    headers: { "www-authenticate": `Bearer realm="${origin}/token",service="s"` },
  });

  it("gets no credential that is sent for another repository", async () => {
    await using world = await startPair(withTokens(), withTokens());
    const { registry, other: thief } = world;
    fill(registry);
    using _evil = registry.inject(realmAt(thief.origin), { repository: "evil/x" });
    await world.failure("evil/x", { credentials: [wrong] });
    expect(thief.requests.token).toBe(1);
    await world.facts("a/b", { credentials: [good] });
    await world.failure("evil/x", { credentials: [good] });
    expect(registry.requests.token).toBe(1);
    thief.forget();
    await world.facts("a/c", { credentials: [good] });
    expect(thief.seen).toEqual([]);
  });

  it("gets nothing over plain http unless the configuration lists it", async () => {
    await using world = await startPair(withTokens(), withTokens(), false);
    const { registry, other: thief } = world;
    fill(registry);
    using _evil = registry.inject(realmAt(thief.origin), { repository: "evil/x" });
    const error = await world.failure("evil/x", { credentials: [good] });
    expect(error.kind).toBe("malformed");
    expect(thief.seen).toEqual([]);
  });
});

describe("what nobody else may see", () => {
  const secrets = [SECRET, "wrong-secret", "refresh-secret", "registry-token-secret"];
  const forms = secrets.flatMap((secret) => [
    secret,
    encodeURIComponent(secret),
    Buffer.from(secret).toString("base64"),
    Buffer.from(`amy:${secret}`).toString("base64"),
  ]);
  const credentials: readonly RegistryCredential[] = [
    { registryToken: "registry-token-secret" },
    { identityToken: "refresh-secret" },
    wrong,
    good,
  ];

  it.each(["basic", "token"] as const)("stands in no error and is told to nobody: %s", async (scheme) => {
    const faults = [
      { does: "status", status: 401, headers: { "www-authenticate": `Basic realm="${SECRET}"` } },
      { does: "status", status: 403 },
      { does: "status", status: 500 },
      { does: "reset" },
      { does: "babble", bytes: Buffer.from(`no ${SECRET} HTTP`) },
      { does: "garbage", bytes: Buffer.from(`{"token": "${SECRET}"`) },
      { does: "redirect", to: `http://elsewhere.invalid/?${SECRET}` },
      { does: "redirect", to: `https://u:${encodeURIComponent(SECRET)}@elsewhere.invalid/` },
      { does: "headers", headers: { "docker-content-digest": SECRET.replace("ü", "u") } },
    ] as const;
    for (const fault of faults) {
      for (const kind of ["manifest", "token"] as const) {
        await using world = await worldWith(scheme === "basic" ? { scheme, users } : withTokens());
        using _fault = world.registry.inject(fault, { kind });
        const read = world.facts("a/b", { credentials });
        const error = await read.then(
          () => undefined,
          (error: unknown) => error,
        );
        const shown = JSON.stringify([world.requests, describeDeeply(error)]);
        for (const form of forms) expect(shown).not.toContain(JSON.stringify(form).slice(1, -1));
      }
    }
  });
});

/** An error with everything that a logger might print of it. */
function describeDeeply(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const own = Object.fromEntries(
    Object.getOwnPropertyNames(error).map((name) => [name, Reflect.get(error, name)]),
  );
  return { ...own, text: String(error), stack: error.stack, cause: describeDeeply(error.cause) };
}
