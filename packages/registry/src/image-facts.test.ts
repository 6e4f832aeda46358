/** What is asked, how long answers are good for, and for whom. */
import { describe, expect, it } from "vitest";
import { asked, bench, HOUR, MINUTE, SECOND, START, settle } from "./testing/fact-bench.ts";
import { aDigest, imageFacts } from "./testing/scripted-reader.ts";
import type { RegistryCredential } from "./types.ts";

describe("A-B5 one request for many questions", () => {
  it("the same question is the same promise, and credentials are asked for once", async () => {
    await using test = bench();
    let times = 0;
    const credentials = async (): Promise<readonly RegistryCredential[]> => {
      times += 1;
      return [];
    };
    const first = test.want("nginx", { credentials });
    expect(test.want("docker.io/library/nginx:latest", { credentials })).toBe(first);
    await asked(test.reader);
    test.reader.next().answer(aDigest("a"));
    await first;
    expect(times).toBe(1);
  });

  it("what a tag stands for is known by its digest too, and by the digest with any tag", async () => {
    await using test = bench();
    await test.learn("ghcr.io/a/b:1", aDigest("a"));
    expect(test.look(`ghcr.io/a/b@${aDigest("a")}`)).toMatchObject({ state: "known" });
    expect(test.look(`ghcr.io/a/b:other@${aDigest("a")}`)).toMatchObject({ state: "known" });
    expect(test.look(`ghcr.io/a/c@${aDigest("a")}`)).toEqual({ state: "unknown" });
    expect(test.told).toEqual([`ghcr.io/a/b@${aDigest("a")}`, "ghcr.io/a/b:1"]);
  });
});

describe("A-B5 how long facts are good for", () => {
  it("a digest: for ever", async () => {
    await using test = bench();
    const image = `nginx@${aDigest("a")}`;
    await test.learn(image, aDigest("a"));
    test.pass(10_000 * HOUR);
    expect(test.look(image, { pull: "Always" })).toMatchObject({ state: "known", at: START });
  });

  it.each([
    ["IfNotPresent", 6 * HOUR],
    ["Never", 6 * HOUR],
    ["Always", 5 * MINUTE],
  ] as const)("a tag with %s: %i ms, and then one HEAD tells that it has not moved", async (pull, ttl) => {
    await using test = bench();
    await test.learn("nginx", aDigest("a"));
    test.pass(ttl - 1);
    expect(test.look("nginx", { pull })).toMatchObject({ state: "known" });
    test.pass(1);
    expect(test.look("nginx", { pull })).toEqual({ state: "unknown" });
    const wanted = test.want("nginx", { pull });
    await asked(test.reader);
    expect(test.reader.next().kind).toBe("digestOf");
    test.reader.next().answer(aDigest("a"));
    await wanted;
    expect(test.look("nginx", { pull })).toMatchObject({ state: "known", at: START + ttl });
    expect(test.reader.counts).toEqual({ read: 1, digestOf: 1 });
    expect(test.outcomes).toEqual(["read", "renewed"]);
  });

  it("a tag that has moved is read again, unless what it stands for now is known already", async () => {
    await using test = bench();
    await test.learn("nginx:1", aDigest("a"), ["amd64"]);
    await test.learn("nginx:2", aDigest("b"), ["arm64"]);
    test.pass(6 * HOUR);
    await test.ask("nginx:1", (request) => request.answer(aDigest("b")));
    expect(test.look("nginx:1")).toMatchObject({ facts: imageFacts(aDigest("b"), ["arm64"]) });
    const two = test.want("nginx:2");
    await asked(test.reader);
    test.reader.next().answer(aDigest("c"));
    await settle();
    expect(test.reader.next().kind).toBe("read");
    test.reader.next().answer(aDigest("c"), ["s390x"]);
    await two;
    expect(test.look("nginx:2")).toMatchObject({ facts: imageFacts(aDigest("c"), ["s390x"]) });
    expect(test.reader.counts).toEqual({ read: 3, digestOf: 2 });
  });

  it("a wall clock that jumps makes no fact older or younger", async () => {
    let wall = START;
    await using test = bench({ now: () => wall });
    await test.learn("nginx", aDigest("a"));
    wall += 1_000 * HOUR;
    expect(test.look("nginx", { pull: "Always" })).toMatchObject({ state: "known" });
    wall -= 2_000 * HOUR;
    test.pass(5 * MINUTE);
    expect(test.look("nginx", { pull: "Always" })).toEqual({ state: "unknown" });
  });

  it.each(["unreachable", "serverError", "rateLimited", "malformed"] as const)(
    "old facts stand while a registry fails (%s), and only so long",
    async (kind) => {
      await using test = bench();
      await test.learn("nginx", aDigest("a"));
      test.pass(6 * HOUR);
      await test.ask("nginx", (request) => request.fail(kind), { pull: "Always" });
      expect(test.look("nginx", { pull: "Always" })).toMatchObject({ state: "known", at: START });
      expect(test.look("nginx")).toMatchObject({ state: "known", at: START });
      test.pass(60 * SECOND);
      expect(test.look("nginx")).toEqual({ state: "unknown" });
    },
  );

  it("a tag that is gone is gone", async () => {
    await using test = bench();
    await test.learn("nginx", aDigest("a"));
    test.pass(6 * HOUR);
    await test.ask("nginx", (request) => request.fail("notFound"));
    expect(test.look("nginx")).toMatchObject({ state: "failed", error: { kind: "notFound" } });
  });
});

describe("failures", () => {
  it.each([
    ["notFound", [60, 120, 240, 480, 600, 600]],
    ["unauthorized", [60, 120, 240, 480, 600, 600]],
    ["forbidden", [60, 120, 240, 480, 600, 600]],
    ["noPlatform", [60, 120, 240, 480, 600, 600]],
    ["malformed", [60, 120, 240, 480, 600, 600]],
    ["unreachable", [5, 10, 20, 40]],
    ["serverError", [5, 10, 20, 40]],
  ] as const)("%s stands for %j seconds, and nobody is asked meanwhile", async (kind, waits) => {
    await using test = bench();
    for (const seconds of waits) {
      await test.ask("nginx", (request) => request.fail(kind));
      const answer = test.look("nginx");
      expect(answer).toMatchObject({ state: "failed", error: { kind } });
      const { at, retryAt } = answer.state === "failed" ? answer : { at: 0, retryAt: 0 };
      expect((retryAt ?? 0) - at).toBe(seconds * SECOND);
      test.pass(seconds * SECOND - 1);
      await test.want("nginx");
      expect(test.reader.pending).toEqual([]);
      test.pass(1);
      expect(test.look("nginx")).toEqual({ state: "unknown" });
    }
    expect(test.outcomes).toEqual(waits.map(() => kind));
  });

  it("are spread by up to a fifth, never sooner", async () => {
    await using test = bench({ random: () => 0.999 });
    await test.ask("nginx", (request) => request.fail("notFound"));
    test.pass(71 * SECOND);
    expect(test.look("nginx")).toMatchObject({ state: "failed" });
    test.pass(SECOND);
    expect(test.look("nginx")).toEqual({ state: "unknown" });
  });

  it.each([
    [90 * SECOND, 90 * SECOND],
    [5 * HOUR, HOUR],
  ])("Retry-After of %i ms is heard for %i ms, also of a server that is down", async (asks, heard) => {
    await using test = bench();
    await test.ask("nginx", (request) => request.fail("serverError", asks));
    expect(test.look("nginx")).toMatchObject({ retryAt: START + heard });
  });

  it("a name that is none is never asked for again", async () => {
    await using test = bench();
    await test.ask("nginx", (request) => request.fail("invalidName"));
    test.pass(10_000 * HOUR);
    const answer = test.look("nginx");
    expect(answer).toMatchObject({ state: "failed", error: { kind: "invalidName" } });
    expect(answer).not.toHaveProperty("retryAt");
  });

  it("go on being told while the image is asked for again, however long that takes, and else are forgotten", async () => {
    await using test = bench();
    await test.ask("nginx", (request) => request.fail("unreachable"));
    test.pass(5 * SECOND);
    const again = test.want("nginx");
    await asked(test.reader);
    for (const _ of [1, 2, 3]) {
      expect(test.look("nginx")).toMatchObject({ state: "failed", error: { kind: "unreachable" } });
      test.pass(10 * SECOND);
    }
    test.reader.next().fail("unreachable");
    await again;
    test.pass(60 * SECOND);
    const late = test.want("nginx");
    await asked(test.reader);
    expect(test.look("nginx")).toEqual({ state: "unknown" });
    test.reader.next().answer(aDigest("a"));
    await late;
    expect(test.look("nginx")).toMatchObject({ state: "known" });
  });

  it("that come rarely do not add up", async () => {
    await using test = bench();
    for (const wait of [5, 5, 5]) {
      await test.ask("nginx", (request) => request.fail("unreachable"));
      expect(test.look("nginx")).toMatchObject({ retryAt: expect.any(Number) });
      test.pass(wait * 2 * SECOND);
    }
    await test.ask("nginx", (request) => request.fail("unreachable"));
    test.pass(5 * SECOND);
    expect(test.look("nginx")).toEqual({ state: "unknown" });
  });

  it("of a reader that breaks its promise are told without what it threw", async () => {
    await using test = bench();
    await test.ask("nginx", (request) => request.throw(new TypeError("Bearer s3cret")));
    const answer = test.look("nginx");
    expect(answer).toMatchObject({ state: "failed", error: { kind: "unreachable" } });
    expect(
      JSON.stringify(answer.state === "failed" ? [answer.error.message, answer.error.cause] : []),
    ).not.toContain("s3cret");
  });
});

describe("who asks", () => {
  const ada: RegistryCredential = { username: "ada", password: "smash" };
  const bob: RegistryCredential = { username: "bob", password: "wrong" };

  it.each(["unauthorized", "forbidden", "notFound"] as const)(
    "%s is told to who was refused, and another with better credentials is not held up by it",
    async (kind) => {
      await using test = bench();
      const wantedByBob = test.want("a.io/private", { scope: "bob", credentials: [bob] });
      await asked(test.reader);
      const wantedByAda = test.want("a.io/private", { scope: "ada", credentials: [ada] });
      test.reader.next().fail(kind);
      await wantedByBob;
      expect(test.look("a.io/private", { scope: "bob" })).toMatchObject({ state: "failed", error: { kind } });
      expect(test.look("a.io/private", { scope: "ada" })).toEqual({ state: "unknown" });
      await asked(test.reader);
      expect(test.reader.next().credentials).toEqual([ada]);
      test.reader.next().answer(aDigest("a"));
      await wantedByAda;
      expect(test.look("a.io/private", { scope: "ada" })).toMatchObject({ state: "known" });
      // What is known is known to all; see "Threats" in the README.
      expect(test.look("a.io/private", { scope: "bob" })).toMatchObject({ state: "known" });
    },
  );

  it("credentials that cannot be read fail their scope only, soon to be tried again, and are not quoted", async () => {
    await using test = bench();
    const credentials = (): Promise<never> => Promise.reject(new Error("s3cret in a Secret"));
    await test.want("a.io/x", { scope: "bob", credentials });
    const answer = test.look("a.io/x", { scope: "bob" });
    expect(answer).toMatchObject({ state: "failed", retryAt: START + 5 * SECOND });
    expect(JSON.stringify(answer)).not.toContain("s3cret");
    expect(test.look("a.io/x", { scope: "ada" })).toEqual({ state: "unknown" });
    expect(test.reader.counts.read).toBe(0);
  });
});
