import type { KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { clusterName, type ObjectKey } from "./key.ts";
import { ChangeHistory } from "./testing/change-history.ts";
import { type Thing, type WatchedLog, watchLog } from "./testing/things.ts";

/** The shortest wait before another attempt, with the jitter of `watchLog`. */
const RECONNECT_MS = 200;

const keyOf = (name: string, cluster = "c"): ObjectKey => ({
  cluster: clusterName(cluster),
  namespace: "",
  name,
});

/** Started, with objects of these names, synced and connected for long enough to count. */
async function synced(watched: WatchedLog, ...names: readonly string[]): Promise<void> {
  for (const name of names) watched.log.write(name);
  watched.start();
  await watched.clock.advance(1_000);
  watched.newRequests();
}

function labelsOf(more: Readonly<Record<string, string>>): Record<string, string> {
  return { cluster: "c", resource: "things.example.com", ...more };
}

describe("a subscriber", () => {
  it("is told of what is there already, then of changes, until it ends, also where its handler is twice", async () => {
    await using watched = watchLog();
    await synced(watched, "a");
    const history = new ChangeHistory<Thing>();
    const first = watched.informer.subscribe(history);
    watched.log.write("b");
    await watched.clock.advance(0);
    watched.informer.subscribe(history);
    first[Symbol.dispose]();
    watched.log.write("c");
    await watched.clock.advance(0);
    expect(history.log).toEqual([
      "added a (initial)",
      "added b",
      "added a (initial)",
      "added b (initial)",
      "added c",
    ]);
  });

  it("that another handler ends in the middle of a change is not told it", async () => {
    await using watched = watchLog();
    await synced(watched);
    const history = new ChangeHistory<Thing>();
    const ending: Disposable[] = [];
    watched.informer.subscribe({ onChange: () => ending.forEach((one) => one[Symbol.dispose]()) });
    ending.push(watched.informer.subscribe(history));
    watched.log.write("a");
    await watched.clock.advance(0);
    expect(history.log).toEqual([]);
  });

  it("that another handler adds in the middle of a change is not told that change again", async () => {
    await using watched = watchLog();
    await synced(watched, "a");
    const histories: ChangeHistory<Thing>[] = [];
    watched.informer.subscribe({
      onChange: (change) => {
        if (change.type === "added" && change.initial) return;
        const history = new ChangeHistory<Thing>();
        histories.push(history);
        watched.informer.subscribe(history);
      },
    });
    watched.log.remove("a");
    watched.log.write("a");
    watched.log.write("a");
    await watched.clock.advance(0);
    expect(histories.map(({ log }) => log)).toEqual([
      ["added a", "updated a"],
      ["added a (initial)", "updated a"],
      ["added a (initial)"],
    ]);
    expect(histories.flatMap(({ violations }) => violations)).toEqual([]);
  });

  it("T-10 joins in the middle of a large snapshot, and the live event after it waits", async () => {
    const count = 1_200;
    await using watched = watchLog();
    const { clock, log, informer } = watched;
    await synced(watched, ...Array.from({ length: count }, (_, index) => `a${index}`));
    const [early, late] = [new ChangeHistory<Thing>(), new ChangeHistory<Thing>()];
    informer.subscribe(early);
    for (let index = 0; index < count; index++) log.remove(`a${index}`);
    for (let index = 1; index < count; index++) log.write(`a${index}`);
    // Nothing of that was delivered: it is found by the next snapshot, of which every uid is new.
    log.forget();
    let waiting = 0;
    informer.subscribe({
      onChange: (change) => {
        if (change.object.metadata?.name !== "a700" || change.type !== "deleted") return;
        queueMicrotask(() => {
          informer.subscribe(late);
          log.write("live");
          waiting = log.undelivered;
        });
      },
    });
    while (informer.get(keyOf("live")) === undefined) await clock.advance(RECONNECT_MS);
    expect(waiting).toBe(1);
    expect([...early.violations, ...late.violations]).toEqual([]);
    for (const history of [early, late]) {
      expect(history.log.at(-1)).toBe("added live");
      expect(history.objects.size).toBe(count);
    }
    expect(late.log).toHaveLength(count);
  });

  it("T-8 that throws is counted, and neither the watch nor the others lose anything", async () => {
    await using watched = watchLog();
    await synced(watched);
    const before = new ChangeHistory<Thing>();
    const after = new ChangeHistory<Thing>();
    watched.informer.subscribe(before);
    watched.informer.subscribe({
      onChange: () => {
        throw new Error("this handler always fails");
      },
    });
    watched.informer.subscribe(after);
    watched.log.write("a");
    watched.log.remove("a");
    await watched.clock.advance(60_000);
    expect(before.log).toEqual(["added a", "deleted a"]);
    expect(after.log).toEqual(before.log);
    expect(watched.newRequests()).toEqual([]);
    expect(watched.metrics.value("informer_handler_failures_total", labelsOf({}))).toBe(2);
  });
});

describe("an eager informer", () => {
  it("tells the objects of a snapshot while it arrives, once, and the end of one that the next no longer has", async () => {
    await using watched = watchLog({ latencyMs: 1000 }, { eager: true, pageSize: 2 });
    const { log, informer, clock } = watched;
    for (const name of ["a", "b", "c"]) log.write(name);
    const early = new ChangeHistory<Thing>();
    informer.subscribe(early);
    const stop = new AbortController();
    const running = await informer.start(stop.signal);
    while (early.log.length === 0) await clock.advance(100);
    expect(informer.synced).toBe(false);
    expect(informer.problem()).toMatch("not synced yet");
    const late = new ChangeHistory<Thing>();
    informer.subscribe(late);
    expect(late.log).toEqual(early.log);
    // The snapshot is never finished: its second page is of a forgotten version. Meanwhile one goes and another comes.
    log.remove("a");
    log.write("d");
    log.forget();
    while (!informer.synced) await clock.advance(1000);
    await clock.advance(0);
    expect(watched.newRequests().slice(0, 3)).toEqual(["list", "list+", "snapshot"]);
    for (const history of [early, late]) {
      expect(history.violations).toEqual([]);
      expect(history.log.toSorted()).toEqual(
        ["a", "b", "c", "d"].map((name) => `added ${name} (initial)`).concat("deleted a"),
      );
    }
    expect(informer.size).toBe(3);
    for (const name of ["b", "c", "d"]) expect(informer.get(keyOf(name))).toBeDefined();
    stop.abort();
    await running.ended;
  });
});

it.each(["notFound", "forbidden"] as const)(
  "an optional informer is no problem while its resource is %s, and follows it later",
  async (kind) => {
    await using watched = watchLog({}, { optional: true });
    const { log, informer, clock } = watched;
    log.write("a");
    log.fail({ kind });
    watched.start();
    await clock.advance(0);
    expect(informer.problem()).toBeUndefined();
    expect(informer.synced).toBe(false);
    expect(informer.absent).toBe(true);
    expect(informer.note?.()).toMatch(/^not followed: /);
    // What is not there is not called refused, and the other way round.
    expect(informer.refusal !== undefined).toBe(kind === "forbidden");
    log.heal();
    while (!informer.synced) await clock.advance(1000);
    expect([informer.refusal, informer.note?.()]).toEqual([undefined, undefined]);
    expect(informer.get(keyOf("a"))).toBeDefined();
    log.write("b");
    await clock.advance(0);
    expect(informer.get(keyOf("b"))).toBeDefined();
  },
);

it("a missing resource is asked for less and less often by a client that cannot tell when it is served", async () => {
  await using watched = watchLog({}, { optional: true });
  const { log, clock } = watched;
  log.fail({ kind: "notFound" });
  watched.start();
  await clock.advance(0);
  for (const waitMs of [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]) {
    watched.newRequests();
    await clock.advance(waitMs - 1);
    expect(watched.newRequests()).toEqual([]);
    await clock.advance(1);
    expect(watched.newRequests()).toHaveLength(1);
  }
});

it("a missing resource is asked for no more until the client says that it is served", async () => {
  await using watched = watchLog({}, { optional: true });
  const { log, informer, clock } = watched;
  const served = Promise.withResolvers<void>();
  Object.assign(log, { whenServed: () => served.promise });
  log.write("a");
  log.fail({ kind: "notFound" });
  watched.start();
  await clock.advance(0);
  watched.newRequests();
  await clock.advance(3_600_000);
  expect(watched.newRequests()).toEqual([]);
  log.heal();
  served.resolve();
  await clock.advance(0);
  expect(informer.get(keyOf("a"))).toBeDefined();
});

describe("the lister", () => {
  it("finds by key, only in its own cluster, and by index", async () => {
    const indexes = { colour: ({ colour }: Thing): string[] => (colour === undefined ? [] : [colour]) };
    await using watched = watchLog({}, { indexes });
    watched.log.write("a", { colour: "red" });
    await synced(watched, "b");
    const { informer } = watched;
    expect(informer.get(keyOf("a"))?.colour).toBe("red");
    expect(informer.get(keyOf("a", "other"))).toBeUndefined();
    expect(informer.byIndex("colour", "red")).toEqual([informer.get(keyOf("a"))]);
    expect(() => informer.byIndex("color", "red")).toThrow(RangeError);
  });

  it("keeps an object whose projection or index function throws, and all others", async () => {
    const fail = ({ metadata }: KubeObject): void => {
      if (metadata?.name === "odd") throw new Error("cannot read this one");
    };
    await using watched = watchLog(
      {},
      {
        project: (thing) => (fail(thing), { ...thing, colour: "projected" }),
        indexes: { all: (thing) => (fail(thing), ["yes"]) },
      },
    );
    watched.log.write("odd", { colour: "red" });
    await synced(watched, "even");
    watched.log.write("odd", { colour: "blue" });
    await watched.clock.advance(0);
    expect(watched.informer.get(keyOf("odd"))?.colour).toBe("blue");
    expect(watched.informer.get(keyOf("even"))?.colour).toBe("projected");
    expect(watched.informer.byIndex("all", "yes")).toHaveLength(1);
    expect(watched.newRequests()).toEqual([]);
  });
});

describe("a connection that ends", () => {
  it("T-2 is made again after any failure, from where it was", async () => {
    await using watched = watchLog();
    await synced(watched, "a");
    for (const failure of ["unreachable", "undecodable", "forbidden", "unauthorized", "notFound"] as const) {
      watched.log.failNext({ kind: failure });
      watched.log.cut({ kind: failure });
      await watched.clock.advance(10_000);
    }
    expect(watched.newRequests()).toEqual(Array.from({ length: 10 }, () => "watch 1"));
    watched.log.write("b");
    await watched.clock.advance(0);
    expect(watched.informer.size).toBe(2);
    watched.log.cut();
    await watched.clock.advance(10_000);
    expect(watched.newRequests()).toEqual(["watch 2"]);
  });

  it("T-3 by the server in its time is followed by a new one at once, from the last bookmark", async () => {
    await using watched = watchLog();
    await synced(watched, "a");
    watched.log.write("b");
    watched.log.bookmark();
    await watched.clock.advance(0);
    watched.log.expire();
    watched.log.end();
    await watched.clock.advance(0);
    expect(watched.newRequests()).toEqual(["watch 2"]);
    expect(watched.log.openStreams).toBe(1);
  });

  it("at once, each time, is no connection: it is told after a minute, and tried ever more rarely", async () => {
    await using watched = watchLog({}, { random: () => 0.999 });
    await synced(watched, "a");
    const cutFor = async (ms: number): Promise<void> => {
      for (const end = watched.clock.monotonic() + ms; watched.clock.monotonic() < end; ) {
        watched.log.cut({ kind: "serverError", status: 500 });
        await watched.clock.advance(100);
      }
    };
    await cutFor(59_900);
    expect(watched.informer.problem()).toBeUndefined();
    await cutFor(60_100);
    expect(watched.informer.synced).toBe(true);
    expect(watched.informer.problem()).toMatch(
      /^not connected for 1[12]\d s: .*the server failed \(HTTP 500\)$/,
    );
    expect(watched.newRequests().length).toBeLessThan(12);
    await watched.clock.advance(31_000);
    expect(watched.informer.problem()).toBeUndefined();
  });

  it("is not asked for sooner than the server wants", async () => {
    await using watched = watchLog();
    await synced(watched, "a");
    watched.log.failNext({ kind: "tooManyRequests", causes: [] }, 7_000);
    watched.log.end();
    await watched.clock.advance(6_999);
    expect(watched.newRequests()).toEqual(["watch 1"]);
    await watched.clock.advance(1);
    expect(watched.newRequests()).toEqual(["watch 1"]);
    expect(watched.log.hasty).toEqual([]);
  });
});

describe("a snapshot", () => {
  it.each([
    ["at once, and from then on, when the server refuses to stream it", { refusesStreams: true }, 0],
    ["and from then on, when the stream stalls", { losesEndMark: true }, 60_000],
  ])("T-14 comes in pages, %s", async (_when, server, afterMs) => {
    await using watched = watchLog(server, { pageSize: 2 });
    for (const name of ["a", "b", "c"]) watched.log.write(name);
    watched.start();
    if (afterMs > 0) await watched.clock.advance(afterMs - 1);
    expect(watched.informer.synced).toBe(false);
    await watched.clock.advance(Math.min(afterMs, 1));
    expect(watched.newRequests()).toEqual(["snapshot", "list", "list+", "watch 3"]);
    expect([watched.informer.size, watched.log.openStreams]).toEqual([3, 1]);
    watched.log.forget();
    await watched.clock.advance(RECONNECT_MS);
    expect(watched.newRequests()).toEqual(["list", "list+", "watch 3"]);
  });

  it("T-14 comes in pages when live events keep a stream alive that never gets to its end", async () => {
    await using watched = watchLog({ losesEndMark: true }, { streamStallMs: 1_000 });
    watched.start();
    for (let second = 1; second <= 10; second++) {
      expect(watched.informer.synced).toBe(false);
      watched.log.write("busy");
      await watched.clock.advance(1_000);
    }
    expect(watched.newRequests()).toEqual(["snapshot", "list", "watch 10"]);
    expect(watched.informer.synced).toBe(true);
  });

  it("T-14 comes in pages this once when the stream ends too soon", async () => {
    await using watched = watchLog({ latencyMs: 10 });
    watched.log.write("a");
    watched.start();
    await watched.clock.advance(15);
    watched.log.end();
    await watched.clock.advance(1_100);
    expect(watched.newRequests()).toEqual(["snapshot", "list", "watch 1"]);
    expect(watched.informer.synced).toBe(true);
    watched.log.forget();
    await watched.clock.advance(100);
    expect(watched.newRequests()).toEqual(["snapshot"]);
  });

  it("is tried by turns in pages and by stream while it fails", async () => {
    await using watched = watchLog();
    watched.log.fail({ kind: "serverError", status: 500 });
    watched.start();
    await watched.clock.advance(RECONNECT_MS * 3);
    expect(watched.newRequests()).toEqual(["snapshot", "list", "snapshot", "list"]);
    watched.log.heal();
    await watched.clock.advance(RECONNECT_MS);
    expect(watched.informer.synced).toBe(true);
  });
});

describe("starting and stopping", () => {
  it("is started once, and waited for until synced or aborted", async () => {
    await using watched = watchLog();
    const { informer, clock, log } = watched;
    log.fail({ kind: "unreachable" });
    const stop = new AbortController();
    const starting = informer.start(stop.signal);
    await expect(informer.start(stop.signal)).rejects.toThrow("started before");
    const gone = new AbortController();
    const waiting = [informer.whenSynced(gone.signal), informer.whenSynced()] as const;
    gone.abort();
    expect(await waiting[0]).toBe(false);
    expect(await informer.whenSynced(gone.signal)).toBe(false);
    log.heal();
    await clock.advance(RECONNECT_MS);
    expect(await waiting[1]).toBe(true);
    expect(await informer.whenSynced()).toBe(true);
    stop.abort();
    await (await starting).ended;
  });

  it.each([
    ["while it waits to try again", { latencyMs: 0 }, 100],
    ["while a request is on its way", { latencyMs: 1_000 }, 500],
    ["in the middle of a snapshot", { latencyMs: 1_000 }, 1_500],
    ["while it watches", { latencyMs: 0 }, 5_000],
  ])("ends without the clock moving %s", async (_when, server, afterMs) => {
    await using watched = watchLog(server);
    watched.log.write("a");
    if (afterMs === 100) watched.log.fail({ kind: "unreachable" });
    watched.start();
    await watched.clock.advance(afterMs);
    await watched.stop();
    expect(watched.log.openStreams).toBe(0);
    expect(watched.clock.nextInMs ?? Number.POSITIVE_INFINITY).toBeGreaterThan(0);
  });

  it("names itself after its resource, or as told", () => {
    expect(watchLog().informer.name).toBe("informer-things-example-com");
    expect(watchLog({}, { name: "informer-red-things" }).informer.name).toBe("informer-red-things");
  });
});

it("metrics count snapshots and failures, and show size, sync and the age of the watch", async () => {
  await using watched = watchLog({ refusesStreams: true });
  const value = (name: string, more: Readonly<Record<string, string>> = {}): number | undefined =>
    watched.metrics.value(`informer_${name}`, labelsOf(more));
  const shown = (name: string): number | undefined => value(name, { informer: watched.informer.name });
  expect([shown("synced"), shown("objects"), shown("watch_age_seconds")]).toEqual([0, 0, -1]);
  await synced(watched, "a", "b");
  expect([shown("synced"), shown("objects")]).toEqual([1, 2]);
  expect(shown("watch_age_seconds")).toBeGreaterThanOrEqual(0);
  expect(value("snapshots_total", { how: "stream" })).toBe(1);
  expect(value("snapshots_total", { how: "pages" })).toBe(1);
  watched.log.cut();
  await watched.clock.advance(0);
  expect(shown("watch_age_seconds")).toBe(-1);
  expect(value("failures_total", { failure: "unreachable" })).toBe(1);
});
