import { describe, expect, it } from "vitest";
import type { FactAnswer, FactDemand, ImageFactStoreOptions, PullPolicy } from "./image-facts.ts";
import { ImageFactStore } from "./image-facts.ts";
import { parseReference } from "./reference.ts";
import { aDigest, imageFacts, ScriptedReader } from "./testing/scripted-reader.ts";
import type { RegistryCredential } from "./types.ts";

const START = Date.UTC(2026, 0, 1);
const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000];

interface Bench extends AsyncDisposable {
  readonly reader: ScriptedReader;
  readonly store: ImageFactStore;
  readonly told: string[];
  readonly outcomes: string[];
  look(image: string, about?: About): FactAnswer;
  want(image: string, about?: About): Promise<void>;
  /** Wants, has it answered with a digest, and waits. */
  learn(image: string, digest: string, architectures?: readonly string[]): Promise<void>;
  pass(ms: number): void;
}

interface About {
  readonly pull?: PullPolicy;
  readonly scope?: string;
  readonly credentials?: readonly RegistryCredential[] | (() => Promise<readonly RegistryCredential[]>);
}

function bench(options: Partial<ImageFactStoreOptions> = {}): Bench {
  const reader = new ScriptedReader();
  let passed = 0;
  const outcomes: string[] = [];
  const store = new ImageFactStore({
    reader,
    now: () => START + passed,
    // Not the wall clock's numbers, and not from zero either.
    monotonic: () => 777 + passed,
    random: () => 0,
    observer: { asked: (outcome) => outcomes.push(outcome) },
    ...options,
  });
  const told: string[] = [];
  store.subscribe((name) => told.push(name));
  const demand = (
    image: string,
    { pull = "IfNotPresent", scope = "team", credentials = [] }: About,
  ): FactDemand => ({
    reference: parseReference(image),
    pull,
    scope,
    credentials: typeof credentials === "function" ? credentials : async () => credentials,
  });
  const bench: Bench = {
    reader,
    store,
    told,
    outcomes,
    look: (image, about = {}) => store.look(demand(image, about)),
    want: (image, about = {}) => store.want(demand(image, about)),
    async learn(image, digest, architectures) {
      const wanted = bench.want(image);
      await asked(reader);
      reader.next().answer(digest, architectures);
      await wanted;
    },
    pass: (ms) => {
      passed += ms;
    },
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
  return bench;
}

/** Until the promises that are settled already have had their say. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
}

async function asked(reader: ScriptedReader): Promise<void> {
  await settle();
  expect(reader.pending.length).toBeGreaterThan(0);
}

describe("A-B5 one request for many questions", () => {
  it("200 pods of one image in 200 namespaces are one read, and then none", async () => {
    await using test = bench();
    const wanted = Array.from({ length: 200 }, (_, index) => test.want("nginx:1", { scope: `ns-${index}` }));
    await asked(test.reader);
    expect(test.reader.pending).toHaveLength(1);
    test.reader.next().answer(aDigest("a"), ["amd64", "arm64"]);
    await Promise.all(wanted);
    for (const scope of ["ns-0", "ns-199", "another"]) {
      expect(test.look("nginx:1", { scope })).toEqual({
        state: "known",
        facts: imageFacts(aDigest("a"), ["amd64", "arm64"]),
        at: START,
      });
      await test.want("nginx:1", { scope });
    }
    expect(test.reader.counts).toEqual({ read: 1, digestOf: 0 });
  });

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

  it("at most 4 to one registry and 16 in all are on their way, and the others follow", async () => {
    await using test = bench({ turns: { unproven: 16 } });
    const images = Array.from({ length: 60 }, (_, index) => `r${index % 5}.example.com/image:${index}`);
    const wanted = images.map((image) => test.want(image));
    await asked(test.reader);
    while (test.reader.pending.length > 0) {
      test.reader.next().answer(aDigest("a"));
      await settle();
    }
    await Promise.all(wanted);
    expect(test.reader.counts.read).toBe(60);
    expect(test.reader.mostAtOnce).toBe(16);
    expect(test.reader.mostPerRegistry).toBe(4);
  });
});

describe("how long facts are good for", () => {
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
    const one = test.want("nginx:1");
    await asked(test.reader);
    test.reader.next().answer(aDigest("b"));
    await one;
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
      const wanted = test.want("nginx", { pull: "Always" });
      await asked(test.reader);
      test.reader.next().fail(kind);
      await wanted;
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
    const wanted = test.want("nginx");
    await asked(test.reader);
    test.reader.next().fail("notFound");
    await wanted;
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
      const wanted = test.want("nginx");
      await asked(test.reader);
      test.reader.next().fail(kind);
      await wanted;
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
    const wanted = test.want("nginx");
    await asked(test.reader);
    test.reader.next().fail("notFound");
    await wanted;
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
    const wanted = test.want("nginx");
    await asked(test.reader);
    test.reader.next().fail("serverError", asks);
    await wanted;
    expect(test.look("nginx")).toMatchObject({ retryAt: START + heard });
  });

  it("a name that is none is never asked for again", async () => {
    await using test = bench();
    const wanted = test.want("nginx");
    await asked(test.reader);
    test.reader.next().fail("invalidName");
    await wanted;
    test.pass(10_000 * HOUR);
    const answer = test.look("nginx");
    expect(answer).toMatchObject({ state: "failed", error: { kind: "invalidName" } });
    expect(answer).not.toHaveProperty("retryAt");
  });

  it("go on being told while the image is asked for again, and are forgotten after that", async () => {
    await using test = bench();
    const fail = async (): Promise<void> => {
      const wanted = test.want("nginx");
      await asked(test.reader);
      test.reader.next().fail("unreachable");
      await wanted;
    };
    await fail();
    test.pass(5 * SECOND);
    const again = test.want("nginx");
    await asked(test.reader);
    expect(test.look("nginx")).toMatchObject({ state: "failed", error: { kind: "unreachable" } });
    test.pass(5 * SECOND);
    expect(test.look("nginx")).toEqual({ state: "unknown" });
    test.reader.next().answer(aDigest("a"));
    await again;
    expect(test.look("nginx")).toMatchObject({ state: "known" });
  });

  it("that come rarely do not add up", async () => {
    await using test = bench();
    for (const wait of [5, 5, 5]) {
      const wanted = test.want("nginx");
      await asked(test.reader);
      test.reader.next().fail("unreachable");
      await wanted;
      expect(test.look("nginx")).toMatchObject({ retryAt: expect.any(Number) });
      test.pass(wait * 2 * SECOND);
    }
    const wanted = test.want("nginx");
    await asked(test.reader);
    test.reader.next().fail("unreachable");
    await wanted;
    test.pass(5 * SECOND);
    expect(test.look("nginx")).toEqual({ state: "unknown" });
  });

  it("of a reader that breaks its promise are told without what it threw", async () => {
    await using test = bench();
    const wanted = test.want("nginx");
    await asked(test.reader);
    test.reader.next().throw(new TypeError("Bearer s3cret"));
    await wanted;
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

  it("500 namespaces without a credential are one request that is refused, not 500", async () => {
    await using test = bench();
    const scopes = Array.from({ length: 500 }, (_, index) => `ns-${index}`);
    const wanted = scopes.map((scope) => test.want("a.io/private", { scope }));
    await asked(test.reader);
    test.reader.next().fail("unauthorized");
    await Promise.all(wanted);
    expect(test.reader.counts.read).toBe(1);
    for (const scope of scopes)
      expect(test.look("a.io/private", { scope })).toMatchObject({ state: "failed" });
  });

  it.each(["unreachable", "noPlatform", "malformed"] as const)("%s is told to all", async (kind) => {
    await using test = bench();
    const wanted = test.want("a.io/x", { scope: "bob" });
    await asked(test.reader);
    test.reader.next().fail(kind);
    await wanted;
    expect(test.look("a.io/x", { scope: "ada" })).toMatchObject({ state: "failed", error: { kind } });
  });

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

describe("a registry in trouble", () => {
  it("is left alone after 5 failures in a row, then asked once, and opened again by an answer", async () => {
    await using test = bench();
    for (let index = 0; index < 5; index += 1) {
      const wanted = test.want(`a.io/x:${index}`);
      await asked(test.reader);
      test.reader.next().fail("unreachable");
      await wanted;
    }
    await test.want("a.io/other");
    expect(test.reader.counts.read).toBe(5);
    expect(test.look("a.io/other")).toMatchObject({
      state: "failed",
      error: { kind: "suspended", registry: "a.io" },
      retryAt: START + 30 * SECOND,
    });
    const elsewhere = test.want("b.io/other");
    await asked(test.reader);
    test.reader.next().answer(aDigest("a"));
    await elsewhere;

    test.pass(30 * SECOND);
    const probe = test.want("a.io/other");
    const meanwhile = test.want("a.io/third");
    await asked(test.reader);
    await meanwhile;
    expect(test.reader.pending).toHaveLength(1);
    expect(test.look("a.io/third")).toMatchObject({ error: { kind: "suspended" } });
    test.reader.next().answer(aDigest("a"));
    await probe;
    test.pass(SECOND);
    const third = test.want("a.io/third");
    await asked(test.reader);
    test.reader.next().answer(aDigest("b"));
    await third;
    expect(test.look("a.io/third")).toMatchObject({ state: "known" });
  });

  it("an hour of outage costs a handful of requests, and what was known stays known", async () => {
    await using test = bench();
    await test.learn("a.io/x", aDigest("a"));
    test.pass(6 * HOUR);
    for (let second = 0; second < 3_600; second += 1) {
      const wanted = test.want("a.io/x");
      await settle();
      while (test.reader.pending.length > 0) test.reader.next().fail("unreachable");
      await wanted;
      expect(test.look("a.io/x")).toMatchObject({ state: "known", at: START });
      test.pass(SECOND);
    }
    expect(test.reader.counts.digestOf).toBeLessThan(25);
  });

  it("429 stops all questions to it for as long as it asks", async () => {
    await using test = bench();
    const wanted = test.want("a.io/x");
    await asked(test.reader);
    test.reader.next().fail("rateLimited", 90 * SECOND);
    await wanted;
    await test.want("a.io/y");
    expect(test.reader.counts.read).toBe(1);
    expect(test.look("a.io/y")).toMatchObject({ error: { kind: "suspended" }, retryAt: START + 90 * SECOND });
    test.pass(90 * SECOND);
    const again = test.want("a.io/y");
    await asked(test.reader);
    test.reader.next().answer(aDigest("a"));
    await again;
  });

  it("hosts that swallow requests leave half of the turns to registries that answer", async () => {
    await using test = bench();
    await test.learn("good.io/x:0", aDigest("a"));
    for (let index = 0; index < 100; index += 1) void test.want(`hole${index}.example.com/x`);
    await settle();
    expect(test.reader.pending).toHaveLength(8);
    const wanted = test.want("good.io/x:1");
    await settle();
    test.reader.pending.find(({ registry }) => registry === "good.io")?.answer(aDigest("b"));
    await wanted;
    expect(test.look("good.io/x:1")).toMatchObject({ state: "known" });
  });
});

describe("bounds", () => {
  it("facts: the one that was used longest ago goes, and is only asked for again", async () => {
    await using test = bench({ maxFacts: 2 });
    const [one, two, three] = ["1", "2", "3"].map((digit) => `a.io/x@${aDigest(digit)}`);
    await test.learn(`${one}`, aDigest("1"));
    await test.learn(`${two}`, aDigest("2"));
    expect(test.look(`${one}`)).toMatchObject({ state: "known" });
    await test.learn(`${three}`, aDigest("3"));
    expect([...test.store.entries()].map(({ name }) => name)).toEqual([one, three]);
    expect(test.look(`${two}`)).toEqual({ state: "unknown" });
    await test.learn(`${two}`, aDigest("2"));
    expect(test.look(`${two}`)).toMatchObject({ state: "known" });
  });

  it("questions: the newcomer is told to come back, and those that wait keep their place", async () => {
    await using test = bench({ maxWaiting: 2 });
    const [one, two] = [test.want("a.io/x:1"), test.want("a.io/x:2")];
    await test.want("a.io/x:3");
    expect(test.look("a.io/x:3")).toMatchObject({
      state: "failed",
      error: { kind: "suspended" },
      retryAt: START + 5 * SECOND,
    });
    expect(test.look("a.io/x:3", { scope: "another" })).toEqual({ state: "unknown" });
    await asked(test.reader);
    while (test.reader.pending.length > 0) test.reader.next().answer(aDigest("a"));
    await Promise.all([one, two]);
    expect(test.look("a.io/x:2")).toMatchObject({ state: "known" });
  });
});

describe("what outlives the process", () => {
  it("goes out and comes in, and a restart asks nothing", async () => {
    await using before = bench();
    await before.learn("nginx:1", aDigest("a"), ["amd64", "arm64"]);
    const stored: unknown = JSON.parse(JSON.stringify([...before.store.entries()]));
    await using after = bench();
    after.pass(HOUR);
    expect(after.store.restore(Array.isArray(stored) ? stored : [])).toEqual({ taken: 2, refused: 0 });
    expect(after.look("nginx:1")).toEqual(before.look("nginx:1"));
    await after.want("nginx:1");
    expect(after.reader.counts).toEqual({ read: 0, digestOf: 0 });
    expect(after.told).toEqual([`docker.io/library/nginx@${aDigest("a")}`, "docker.io/library/nginx:1"]);
    // It is an hour old, and not new.
    after.pass(5 * HOUR);
    expect(after.look("nginx:1")).toEqual({ state: "unknown" });
  });

  it("the newer of two stands, and a date in the future is now", async () => {
    await using test = bench();
    const fact = (digest: string, at: number): object => ({ name: "a.io/x:1", ...imageFacts(digest), at });
    expect(test.store.restore([fact(aDigest("1"), START - 100)])).toEqual({ taken: 1, refused: 0 });
    expect(test.store.restore([fact(aDigest("2"), START - 200)])).toEqual({ taken: 0, refused: 0 });
    expect(test.store.restore([fact(aDigest("3"), START - 50)])).toEqual({ taken: 1, refused: 0 });
    expect(test.store.restore([fact(aDigest("4"), START + 10_000 * HOUR)])).toEqual({ taken: 1, refused: 0 });
    expect(test.look("a.io/x:1")).toMatchObject({ at: START, facts: { digest: aDigest("4") } });
    test.pass(6 * HOUR);
    expect(test.look("a.io/x:1")).toEqual({ state: "unknown" });
  });
});

describe("its end", () => {
  it("gives up what is on its way and what waits, and asks nothing more", async () => {
    const test = bench({ turns: { total: 1 } });
    const wanted = [test.want("a.io/x:1"), test.want("a.io/x:2")];
    await asked(test.reader);
    await test.store[Symbol.asyncDispose]();
    await Promise.all(wanted);
    expect(test.reader.pending).toEqual([]);
    await test.want("a.io/x:3");
    expect(test.reader.counts.read).toBe(1);
    expect(test.look("a.io/x:1")).toEqual({ state: "unknown" });
    expect(test.told).toEqual([]);
  });

  it("a listener that throws or has left keeps nobody from being told", async () => {
    const failed: unknown[] = [];
    await using test = bench({ observer: { listenerFailed: (error) => failed.push(error) } });
    const gone: string[] = [];
    const broken = new Error("broken listener");
    const subscription = test.store.subscribe((name) => gone.push(name));
    test.store.subscribe(() => {
      throw broken;
    });
    const last: string[] = [];
    test.store.subscribe((name) => last.push(name));
    subscription[Symbol.dispose]();
    await test.learn(`a.io/x@${aDigest("a")}`, aDigest("a"));
    expect(failed).toEqual([broken]);
    expect(gone).toEqual([]);
    expect(last).toEqual([`a.io/x@${aDigest("a")}`]);
  });
});
