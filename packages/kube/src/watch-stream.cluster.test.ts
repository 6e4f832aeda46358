/** Watches on a real API server. `T-n`: see "Traps" in the README of this package. */
import { cutStream, errorEvent, eventually, sharedTestCluster, startTcpProxy } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import type { WatchEvent, WatchStream } from "./client.ts";
import { configMaps, namespaces } from "./generated/resources.ts";
import type { ConfigMap } from "./generated/wire.ts";
import { compareResourceVersions } from "./object.ts";
import { failureOf } from "./testing/api-error.ts";
import { startProxied } from "./testing/proxied.ts";

const cluster = await sharedTestCluster();
const { client } = cluster;

/** A namespace of its own with config maps of these names. */
async function createNamespace(...names: readonly string[]): Promise<string> {
  const made = await client.create(namespaces, { metadata: { generateName: "watch-" } });
  const namespace = made.metadata?.name ?? "";
  for (const name of names) await client.create(configMaps, { metadata: { namespace, name } });
  return namespace;
}

const touch = (namespace: string, name: string, value: string): Promise<ConfigMap> =>
  client.patch(configMaps, { namespace, name }, { type: "merge", body: { data: { value } } });

/** `ADDED a`, `BOOKMARK`, `BOOKMARK end`. */
function summary(event: WatchEvent<ConfigMap>): string {
  if (event.type === "BOOKMARK") return event.initialEventsEnd ? "BOOKMARK end" : "BOOKMARK";
  return `${event.type} ${event.object.metadata?.name}`;
}

/** Reads until `last` has come. */
async function readUntil(
  events: AsyncIterator<WatchEvent<ConfigMap>>,
  last: (event: WatchEvent<ConfigMap>) => boolean,
): Promise<readonly WatchEvent<ConfigMap>[]> {
  const seen: WatchEvent<ConfigMap>[] = [];
  for (;;) {
    const { done, value } = await events.next();
    if (done) return seen;
    seen.push(value);
    if (last(value)) return seen;
  }
}

const iterate = (stream: WatchStream<ConfigMap>): AsyncIterator<WatchEvent<ConfigMap>> =>
  stream[Symbol.asyncIterator]();

describe("T-14 a watch with initial events", () => {
  it("streams what is there, says when that was all, and goes on with what happens", async () => {
    const namespace = await createNamespace("a", "b");
    await using watch = await client.watch(configMaps, { namespace, sendInitialEvents: true });
    const events = iterate(watch);
    const initial = await readUntil(events, (event) => event.type === "BOOKMARK");
    expect(initial.map(summary)).toEqual(["ADDED a", "ADDED b", "BOOKMARK end"]);
    await touch(namespace, "a", "1");
    await client.delete(configMaps, { namespace, name: "b" });
    await client.create(configMaps, { metadata: { namespace, name: "c" } });
    const live = await readUntil(events, (event) => summary(event) === "ADDED c");
    expect(live.map(summary)).toEqual(["MODIFIED a", "DELETED b", "ADDED c"]);
    // From the version that ended them another watch misses nothing.
    const end = initial.at(-1);
    const resourceVersion = end?.type === "BOOKMARK" ? end.resourceVersion : "";
    await using second = await client.watch(configMaps, { namespace, resourceVersion });
    const again = await readUntil(iterate(second), (event) => summary(event) === "ADDED c");
    expect(again.map(summary)).toEqual(live.map(summary));
  });
});

describe("a watch from a version", () => {
  it("begins after it, within the scope and the selectors it was given", async () => {
    const [here, there] = [await createNamespace("a", "b"), await createNamespace("a")];
    const { metadata } = await client.list(configMaps, { namespace: here });
    await using watch = await client.watch(configMaps, {
      namespace: here,
      fieldSelector: "metadata.name=a",
      resourceVersion: metadata.resourceVersion ?? "",
      project: ({ metadata, data }) => ({
        metadata: { name: metadata?.name ?? "" },
        ...(data ? { data } : {}),
      }),
    });
    await touch(there, "a", "elsewhere");
    await touch(here, "b", "not selected");
    await touch(here, "a", "1");
    const next = await iterate(watch).next();
    const object = { metadata: { name: "a" }, data: { value: "1" } };
    expect(next.value).toEqual({ type: "MODIFIED", object });
  });

  it("gets bookmarks with a newer version while its own objects are quiet, and ends without an error", async () => {
    const [quiet, busy] = [await createNamespace("a"), await createNamespace("a")];
    const { metadata } = await client.list(configMaps, { namespace: quiet });
    const from = metadata.resourceVersion ?? "";
    let tries = 0;
    // The server sends a bookmark about two seconds before it ends the watch, if it has seen a change by then.
    const seen = await eventually(
      async () => {
        await using watch = await client.watch(configMaps, {
          namespace: quiet,
          resourceVersion: from,
          timeoutSeconds: 3,
        });
        await touch(busy, "a", `${++tries}`);
        const all = await readUntil(iterate(watch), () => false);
        expect(all.map(summary)).toContain("BOOKMARK");
        return all;
      },
      { timeoutMs: 60_000 },
    );
    const last = seen.at(-1);
    expect(
      compareResourceVersions(last?.type === "BOOKMARK" ? last.resourceVersion : "", from),
    ).toBeGreaterThan(0);
  });

  it("that cannot be understood is refused before anything is watched", async () => {
    expect(await failureOf(client.watch(configMaps, { labelSelector: "a in" }))).toMatchObject({
      kind: "invalid",
    });
  });
});

describe("T-7 a watch that breaks", () => {
  /** A watch behind a proxy, after its initial events. */
  async function startWatched() {
    await using undo = new AsyncDisposableStack();
    const { proxy, client: proxied } = undo.use(await startProxied(cluster));
    const namespace = await createNamespace("a");
    const watch = undo.use(await proxied.watch(configMaps, { namespace, sendInitialEvents: true }));
    const events = iterate(watch);
    await readUntil(events, (event) => event.type === "BOOKMARK");
    const owned = undo.move();
    return { proxy, namespace, events, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  it.each([
    [410, { kind: "expired" }],
    [500, { kind: "serverError", status: 500 }],
    [429, { kind: "tooManyRequests", causes: [] }],
  ])("by an ERROR event with code %i fails with %j, once, and then is over", async (code, failure) => {
    await using proxied = await startWatched();
    const { proxy, namespace, events } = proxied;
    using _ = proxy.onWatchEvent({ type: "MODIFIED" }, errorEvent(code), { times: 1 });
    await touch(namespace, "a", "1");
    expect(await failureOf(events.next())).toEqual(failure);
    expect(await events.next()).toEqual({ done: true, value: undefined });
    await proxy.untilOpenStreams(0);
  });

  it("by a reset is unreachable, after the event that its reader waited for", async () => {
    await using proxied = await startWatched();
    const { proxy, namespace, events } = proxied;
    using _ = proxy.onWatchEvent({ type: "MODIFIED" }, cutStream("after"));
    // The read has to wait when the event comes: a reset drops what has arrived and was not read (see EventStream).
    const [first] = await Promise.all([events.next(), touch(namespace, "a", "1")]);
    expect(first.value).toMatchObject({ type: "MODIFIED" });
    expect(await failureOf(events.next())).toEqual({ kind: "unreachable" });
  });

  it("by its signal is aborted, whether its reader waits or is busy", async () => {
    const namespace = await createNamespace();
    for (const busy of [false, true]) {
      const abort = new AbortController();
      const watch = await client.watch(configMaps, { namespace, signal: abort.signal });
      const waiting = busy ? undefined : failureOf(iterate(watch).next());
      abort.abort();
      expect(await (waiting ?? failureOf(iterate(watch).next()))).toEqual({ kind: "aborted" });
    }
  });

  it("by its reader is closed on the server too", async () => {
    await using proxied = await startWatched();
    const { proxy, events } = proxied;
    expect(proxy.openStreams).toBe(1);
    await events.return?.();
    await proxy.untilOpenStreams(0);
    expect(proxy.openStreams).toBe(0);
  });
});

describe("T-10 a slow reader", () => {
  /** 256 KiB is what HTTP/2 lets a stream send unread, as much again may be in buffers on the way. */
  const UNREAD_BYTES = 2 * 1024 * 1024;
  const COUNT = 160;
  const EACH_BYTES = 100_000;

  it("slows its stream and not our memory, and nothing else on the connection; then it gets all of it", async () => {
    const namespace = await createNamespace();
    const data = { large: "x".repeat(EACH_BYTES) };
    for (let from = 0; from < COUNT; from += 16) {
      await Promise.all(
        Array.from({ length: 16 }, (_, index) =>
          client.create(configMaps, { metadata: { namespace, name: `large-${from + index}` }, data }),
        ),
      );
    }
    await using link = await startTcpProxy({ target: new URL(cluster.url) });
    await using slow = cluster.connect({ server: link.url });
    await slow.read("/version");
    const before = link.stats.serverToClient.delivered;
    await using watch = await slow.watch(configMaps, { namespace, sendInitialEvents: true });
    const events = iterate(watch);
    await events.next();
    // Other requests on the connection are answered, over and over, while the stream waits.
    for (let count = 0; count < 50; count++) await slow.read("/version");
    expect(link.stats.opened).toBe(1);
    expect(link.stats.serverToClient.delivered - before).toBeLessThan(UNREAD_BYTES);
    const rest = await readUntil(events, (event) => event.type === "BOOKMARK");
    expect(rest).toHaveLength(COUNT);
    await eventually(() =>
      expect(link.stats.serverToClient.delivered - before).toBeGreaterThan(COUNT * EACH_BYTES),
    );
  });
});
