/** Connections, deadlines and broken links, between this client and a real API server. `T-n`: see "Traps" in the README. */
import { getEventListeners } from "node:events";
import { performance } from "node:perf_hooks";
import { aNode, eventually, hold, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import type { WatchStream } from "./client.ts";
import type { ApiFailure } from "./failure.ts";
import { configMaps, nodes } from "./generated/resources.ts";
import type { Node } from "./generated/wire.ts";
import { errorOf } from "./testing/api-error.ts";
import { startLinked, startProxied } from "./testing/proxied.ts";

const NODE = "n1";
const of = { name: NODE };
const mark = (value: string): { type: "merge"; body: { readonly metadata: object } } => ({
  type: "merge",
  body: { metadata: { annotations: { value } } },
});

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(nodes, aNode(NODE).build());
});

/** How a promise failed, and after how many milliseconds from now. */
async function failureOf(promise: Promise<unknown>): Promise<{ failure: ApiFailure; afterMs: number }> {
  const startedAt = performance.now();
  const { failure } = await errorOf(promise);
  return { failure, afterMs: performance.now() - startedAt };
}

async function endOf(stream: WatchStream<Node>): Promise<void> {
  for await (const event of stream) expect(event.type).not.toBe("DELETED");
}

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

describe("T-1 connections", () => {
  it("requests that come while the connection is being made do not each make one", async () => {
    await using linked = await startLinked(cluster);
    const { client, link } = linked;
    const requests: Promise<unknown>[] = [];
    while (link.stats.serverToClient.received < 10_000) {
      // Fewer than one connection carries, however slowly it is made: more would rightly get another.
      if (requests.length < 80)
        requests.push(requests.length < 20 ? client.watch(nodes) : client.get(nodes, of));
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await Promise.all(requests);
    expect([link.stats.opened, client.openSockets]).toEqual([1, 1]);
  });

  it("more watches than one carries get another; every watch and every read stays alive", async () => {
    await using linked = await startLinked(cluster);
    const { client, link } = linked;
    const watches = await Promise.all(times(150, () => client.watch(nodes, { sendInitialEvents: true })));
    await client.get(nodes, of);
    expect(link.stats.opened).toBe(2);
    for (const watch of watches) {
      const first = await watch[Symbol.asyncIterator]().next();
      expect(first.value).toMatchObject({ type: "ADDED" });
    }
  });

  it("a hundred patches at once use at most sixteen, which close when idle", async () => {
    await using linked = await startLinked(cluster);
    const { client } = linked;
    await client.get(nodes, of);
    let most = 0;
    await Promise.all(
      times(100, async (index) => {
        await client.patch(nodes, of, mark(String(index)));
        most = Math.max(most, client.openSockets);
      }),
    );
    expect(most).toBeGreaterThan(2);
    expect(most).toBeLessThanOrEqual(1 + 16);
    await eventually(() => expect(client.openSockets).toBe(1), { timeoutMs: 60_000 });
  });

  it("a write that is aborted in the turn in which it is sent ends alone", async () => {
    await using linked = await startLinked(cluster);
    const { client } = linked;
    await client.get(nodes, of);
    for (let ticks = 0; ticks < 20; ticks++) {
      const stop = new AbortController();
      const sent = client.patch(nodes, of, mark(`${ticks}`), { signal: stop.signal }).catch(() => undefined);
      for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
      stop.abort();
      await sent;
    }
    expect(await client.patch(nodes, of, mark("next"))).toMatchObject(mark("next").body);
  });

  it("are gone after close, and every request with them", async () => {
    await using linked = await startLinked(cluster);
    const { client, link } = linked;
    const watch = await client.watch(nodes);
    await client.patch(nodes, of, mark("close"));
    const ended = failureOf(endOf(watch));
    await client.close();
    await client.close();
    expect((await ended).failure).toEqual({ kind: "aborted" });
    expect((await failureOf(client.get(nodes, of))).failure).toEqual({ kind: "aborted" });
    await link.until(({ open }) => open === 0);
    expect(client.openSockets).toBe(0);
  });
});

describe("T-4 a link that fails", () => {
  const SILENCE_MS = 1500;
  /** A PING acknowledgement of HTTP/2 is 17 bytes, in a TLS 1.3 record 39. */
  const PONG_BYTES = 39;
  /** A machine that stands still is silent too, and the client is right to give up. Its own faults show each time. */
  const MACHINE_MAY_STALL = { retry: 3 } as const;

  it(
    "is told from one that is quiet: a watch without events outlives the limit",
    MACHINE_MAY_STALL,
    async () => {
      await using linked = await startLinked(cluster, { silenceMs: SILENCE_MS });
      const { client, link } = linked;
      const { resourceVersion = "" } = (await client.list(nodes)).metadata;
      await using watch = await client.watch(nodes, { resourceVersion });
      const before = link.stats.serverToClient.received;
      // Three pings per limit: after ten answers more than three limits have passed without an event.
      await link.until(({ serverToClient }) => serverToClient.received >= before + 10 * PONG_BYTES);
      const events = watch[Symbol.asyncIterator]();
      const next = events.next();
      await cluster.client.patch(nodes, of, mark("after the silence"));
      expect((await next).value).toMatchObject({ type: "MODIFIED" });
      expect(link.stats.opened).toBe(1);
    },
  );

  it("is told from a process that stood still for longer: its watch goes on", async () => {
    await using linked = await startLinked(cluster, { silenceMs: SILENCE_MS });
    const { client, link } = linked;
    const { resourceVersion = "" } = (await client.list(nodes)).metadata;
    await using watch = await client.watch(nodes, { resourceVersion });
    for (let times = 0; times < 2; times += 1) {
      const until = performance.now() + 2 * SILENCE_MS;
      while (performance.now() < until);
      // Timers that are due, but nothing is read yet.
      await new Promise<void>((resolve) => setTimeout(resolve));
    }
    const next = watch[Symbol.asyncIterator]().next();
    await cluster.client.patch(nodes, of, mark("after it stood still"));
    expect((await next).value).toMatchObject({ type: "MODIFIED" });
    expect(link.stats.opened).toBe(1);
  });

  it.each(["drop", "stall"] as const)(
    "by %s ends all streams within the limit, and the next request uses a new connection",
    MACHINE_MAY_STALL,
    async (fault) => {
      await using linked = await startLinked(cluster, { silenceMs: SILENCE_MS });
      const { client, link } = linked;
      const watches = await Promise.all(times(5, () => client.watch(nodes)));
      link[fault]();
      const ends = await Promise.all([...watches.map(endOf), client.get(nodes, of)].map(failureOf));
      for (const { failure, afterMs } of ends) {
        expect(failure).toEqual({ kind: "unreachable" });
        expect(afterMs).toBeLessThan(2 * SILENCE_MS);
      }
      link.pass();
      await client.get(nodes, of);
      expect(link.stats.opened).toBe(2);
    },
  );

  it("is unreachable for everybody at once when nobody accepts", async () => {
    await using linked = await startLinked(cluster);
    const { client, link } = linked;
    link.refuse();
    const reads = times(20, () => failureOf(client.get(nodes, of)));
    const writes = times(20, (index) => failureOf(client.patch(nodes, of, mark(String(index)))));
    for (const { failure } of await Promise.all([...reads, ...writes]))
      expect(failure.kind).toBe("unreachable");
    link.pass();
    await client.get(nodes, of);
    await client.patch(nodes, of, mark("reachable again"));
  });
});

describe("a deadline", () => {
  const SOON_MS = 300;

  it("ends a request that gets no answer, and one that gets no connection", async () => {
    await using linked = await startLinked(cluster);
    const { client, link } = linked;
    await client.get(nodes, of);
    link.stall();
    const requests = [
      client.get(nodes, of, { timeoutMs: SOON_MS }),
      client.list(nodes, { timeoutMs: SOON_MS }),
      // Writes have no connection yet, and do not get one.
      client.patch(nodes, of, mark("late"), { timeoutMs: SOON_MS }),
    ];
    for (const { failure, afterMs } of await Promise.all(requests.map(failureOf))) {
      expect(failure).toEqual({ kind: "timeout", afterMs: SOON_MS });
      // Long before the 30 s after which any request ends by itself.
      expect(afterMs).toBeLessThan(15_000);
    }
  });

  it("ends a request that waits for a place among the writes", async () => {
    await using proxied = await startProxied(cluster, { maxWriteConnections: 1 });
    const { client, proxy } = proxied;
    const held = hold();
    using _ = proxy.on({ verb: "patch" }, held);
    const first = client.patch(nodes, of, mark("first"));
    await held.until();
    const { failure } = await failureOf(client.patch(nodes, of, mark("second"), { timeoutMs: SOON_MS }));
    expect(failure).toEqual({ kind: "timeout", afterMs: SOON_MS });
    held.release();
    await first;
    // The one that gave up is not sent when its place comes.
    await client.patch(nodes, of, mark("third"));
    expect(proxy.count({ verb: "patch" })).toBe(2);
  });

  it("ends a body that does not come to its end", async () => {
    await using linked = await startLinked(cluster);
    const { client, link } = linked;
    await client.create(configMaps, {
      metadata: { namespace: "default", name: "large" },
      data: { large: "x".repeat(900_000) },
    });
    await client.get(nodes, of);
    const received = link.stats.serverToClient.received;
    using playing = link.play([
      {
        after: { bytes: 100_000, direction: "serverToClient" },
        do: ({ serverToClient }) => serverToClient.stall(),
      },
    ]);
    const large = { namespace: "default", name: "large" };
    // The stall has to come before the deadline.
    const { failure } = await failureOf(client.get(configMaps, large, { timeoutMs: 10 * SOON_MS }));
    expect(failure).toEqual({ kind: "timeout", afterMs: 10 * SOON_MS });
    expect(await playing.done).toBe(true);
    expect(link.stats.serverToClient.received).toBeGreaterThan(received);
  });
});

describe("the caller's signal", () => {
  it("ends what it was given to, and nothing else", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    const held = hold();
    using _ = proxy.on({ resource: "nodes" }, held);
    const [mine, yours] = [new AbortController(), new AbortController()];
    const requests = [
      client.get(nodes, of, { signal: mine.signal }),
      client.list(nodes, { signal: mine.signal }),
      client.watch(nodes, { signal: mine.signal }),
      client.patch(nodes, of, mark("aborted"), { signal: mine.signal }),
    ].map(failureOf);
    const other = client.get(nodes, of, { signal: yours.signal });
    await held.until(5);
    mine.abort();
    for (const { failure } of await Promise.all(requests)) expect(failure).toEqual({ kind: "aborted" });
    held.release();
    expect((await other).metadata?.name).toBe(NODE);
  });

  it("that has aborted already sends nothing", async () => {
    await using proxied = await startProxied(cluster);
    const { client, proxy } = proxied;
    const { failure } = await failureOf(client.get(nodes, of, { signal: AbortSignal.abort() }));
    expect(failure).toEqual({ kind: "aborted" });
    expect(proxy.requests).toHaveLength(0);
  });

  it("is left without a listener by a thousand requests, failed ones and watches as well", async () => {
    await using linked = await startLinked(cluster);
    const { client } = linked;
    const { signal } = new AbortController();
    for (let round = 0; round < 10; round++) {
      await Promise.all(times(90, () => client.get(nodes, of, { signal })));
      await Promise.all(times(5, () => failureOf(client.get(nodes, { name: "none" }, { signal }))));
      for (const watch of await Promise.all(times(5, () => client.watch(nodes, { signal }))))
        await watch[Symbol.asyncDispose]();
    }
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
});
