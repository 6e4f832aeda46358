/** Registries in trouble, bounds, restarts and the end. */
import { describe, expect, it } from "vitest";
import { asked, type Bench, bench, HOUR, SECOND, START, settle } from "./testing/fact-bench.ts";
import { aDigest, imageFacts } from "./testing/scripted-reader.ts";

describe("a registry in trouble", () => {
  it("is left alone after 5 failures in a row, then asked once, and opened again by an answer", async () => {
    await using test = bench();
    for (let index = 0; index < 5; index += 1) {
      await test.ask(`a.io/x:${index}`, (request) => request.fail("unreachable"), {
        namespace: `of-${index % 2}`,
      });
    }
    await test.want("a.io/other");
    expect(test.reader.counts.read).toBe(5);
    expect(test.look("a.io/other")).toMatchObject({
      state: "failed",
      error: { kind: "suspended", registry: "a.io" },
      retryAt: START + 30 * SECOND,
    });
    await test.ask("b.io/other", (request) => request.answer(aDigest("a")));

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
    await test.ask("a.io/third", (request) => request.answer(aDigest("b")));
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

  it("A-B5 429 stops all questions of that namespace and credential to it for as long as it asks", async () => {
    await using test = bench();
    await test.ask("a.io/x", (request) => request.fail("rateLimited", 90 * SECOND));
    await test.want("a.io/y");
    expect(test.reader.counts.read).toBe(1);
    expect(test.look("a.io/y")).toMatchObject({ error: { kind: "suspended" }, retryAt: START + 90 * SECOND });
    test.pass(90 * SECOND);
    await test.ask("a.io/y", (request) => request.answer(aDigest("a")));
  });
});

describe("S-2 a namespace that floods", () => {
  const pendingNames = ({ reader }: Bench): readonly string[] => reader.pending.map(({ name }) => name);

  it("with 10,000 names leaves room to wait, and the next turn, to others, whatever pull secrets it names", async () => {
    await using test = bench();
    for (let index = 0; index < 10_000; index += 1)
      void test.want(`a.io/evil:${index}`, { namespace: "evil", scope: `evil-${index % 7}` });
    expect(test.look("a.io/evil:9999", { scope: "evil-3" })).toMatchObject({ error: { kind: "suspended" } });
    const wanted = test.want("a.io/mine", { namespace: "victim" });
    await asked(test.reader);
    test.reader.next().answer(aDigest("a"));
    await settle();
    test.reader.pending.find(({ name }) => name === "a.io/mine:latest")?.answer(aDigest("b"));
    await wanted;
    expect(test.look("a.io/mine", { namespace: "victim" })).toMatchObject({ state: "known" });
  });

  it.each([
    ["hosts that never answer", false],
    ["hosts that answered a 404, and do not answer any more", true],
  ])(
    "with %s leaves turns to others, also for registries that nobody has asked before",
    async (_, answersFirst) => {
      await using test = bench();
      const hosts = Array.from({ length: 300 }, (_, index) => `slow${index}.example`);
      if (answersFirst) {
        for (const host of hosts) {
          await test.ask(`${host}/none`, (request) => request.fail("notFound"), { namespace: "evil" });
        }
      }
      for (const host of hosts) void test.want(`${host}/x`, { namespace: "evil" });
      for (const image of ["docker.io/library/x:1", "docker.io/library/x:2"])
        void test.want(image, { namespace: "victim" });
      void test.want("ghcr.io/x", { namespace: "third" });
      await settle();
      expect(pendingNames(test)).toEqual(
        expect.arrayContaining(["docker.io/library/x:1", "docker.io/library/x:2", "ghcr.io/x:latest"]),
      );
    },
  );

  it("before anybody may be asked leaves room to others", async () => {
    const ready = Promise.withResolvers<void>();
    await using test = bench({ ready: ready.promise });
    for (let index = 0; index < 10_000; index += 1)
      void test.want(`a.io/evil:${index}`, { namespace: "evil" });
    void test.want("b.io/mine", { namespace: "victim" });
    await settle();
    expect(test.reader.pending).toEqual([]);
    ready.resolve();
    await settle();
    expect(pendingNames(test)).toContain("b.io/mine:latest");
  });

  it("with hosts that stop answering loses what they had been trusted with", async () => {
    await using test = bench();
    for (const how of ["slow", "silent"]) {
      const hosts = Array.from({ length: 8 }, (_, index) => `${how}${index}.example`);
      for (const host of hosts) await test.learn(`${host}/x:1`, aDigest("a"));
      const wanted = hosts.map((host) => test.want(`${host}/x:2`));
      await settle();
      expect(test.reader.pending).toHaveLength(8);
      test.pass(3 * SECOND);
      while (test.reader.pending.length > 0) {
        if (how === "slow") test.reader.next().answer(aDigest("a"));
        else test.reader.next().fail("unreachable");
      }
      await Promise.all(wanted);
      const again = hosts.map((host) => test.want(`${host}/x:3`));
      await settle();
      expect(test.reader.pending).toHaveLength(4);
      while (test.reader.pending.length > 0) {
        test.reader.next().fail("unreachable");
        await settle();
      }
      await Promise.all(again);
    }
  });
});

it("facts are bounded: the one that was used longest ago goes, and is only asked for again", async () => {
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

it("questions are bounded: the newcomer is told to come back, and those that wait keep their place", async () => {
  await using test = bench({ maxWaiting: 4 });
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

it("what outlives the process goes out and comes in, and a restart asks nothing", async () => {
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

it("of what outlives the process the newer of two stands, and a date in the future is now", async () => {
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

it("the end gives up what is on its way and what waits, and asks nothing more", async () => {
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
