import {
  isApiError,
  type KubeClient,
  type Node,
  nodes,
  type WatchEvent,
  type WatchStream,
} from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { TestCluster } from "../cluster.ts";
import { aNode } from "../node-builder.ts";
import { sharedTestCluster } from "../shared.ts";
import { conflict, cutAfterForwarding, errorEvent, tooManyRequests } from "./actions.ts";
import { hold } from "./hold.ts";
import { type HttpProxy, startHttpProxy } from "./http-proxy.ts";
import { startTcpProxy } from "./tcp-proxy.ts";

/** A proxy in front of the real API server, a client that goes through it, and a node of its own. */
interface Setup extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly proxy: HttpProxy;
  readonly client: KubeClient;
  readonly node: string;
  label(value: string): Promise<Node>;
}

async function start(node: string): Promise<Setup> {
  await using undo = new AsyncDisposableStack();
  const cluster = await sharedTestCluster();
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  const proxy = undo.use(await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate }));
  const client = undo.use(cluster.connect({ server: proxy.url }));
  await cluster.client.create(nodes, aNode(node).build());
  undo.defer(() => cluster.client.delete(nodes, { name: node }));
  const owned = undo.move();
  return {
    cluster,
    proxy,
    client,
    node,
    label: (value) =>
      client.patch(nodes, { name: node }, { type: "merge", body: { metadata: { labels: { value } } } }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function valueOf({ cluster, node }: Setup): Promise<string | undefined> {
  const found = await cluster.client.get(nodes, { name: node });
  return found.metadata?.labels?.["value"];
}

function watchNode({ client, node }: Setup): Promise<WatchStream<Node>> {
  return client.watch(nodes, { fieldSelector: `metadata.name=${node}`, sendInitialEvents: true });
}

/** The next event that is no bookmark, as `TYPE value`. */
async function nextEvent(events: AsyncIterator<WatchEvent<Node>>): Promise<string> {
  for (;;) {
    const { done, value } = await events.next();
    if (done) return "end";
    if (value.type !== "BOOKMARK") return `${value.type} ${value.object.metadata?.labels?.["value"] ?? ""}`;
  }
}

const failureOf = (error: unknown): unknown => (isApiError(error) ? error.failure.kind : error);

describe("the HTTP proxy in front of a real API server", () => {
  it("carries reads, writes and a watch with the client's own credential", async () => {
    await using setup = await start("fault-plain");
    await using watch = await watchNode(setup);
    const events = watch[Symbol.asyncIterator]();
    expect(await nextEvent(events)).toBe("ADDED ");
    await setup.label("one");
    expect(await nextEvent(events)).toBe("MODIFIED one");
    expect(setup.proxy.openStreams).toBe(1);
    expect(setup.proxy.requests).toMatchObject([
      { verb: "watch", resource: "nodes", name: setup.node, status: 200 },
      { verb: "patch", resource: "nodes", name: setup.node, status: 200 },
    ]);
  });

  it("answers one patch with a conflict, and the next one reaches the server", async () => {
    await using setup = await start("fault-conflict");
    using rule = setup.proxy.on({ verb: "patch", resource: "nodes" }, conflict(), { times: 1 });
    expect(await setup.label("one").catch(failureOf)).toBe("conflict");
    expect(await valueOf(setup)).toBeUndefined();
    await setup.label("two");
    expect(await valueOf(setup)).toBe("two");
    expect(rule.hits).toBe(1);
  });

  it("cuts the client off after the server has stored the write", async () => {
    await using setup = await start("fault-cut");
    using _rule = setup.proxy.on({ verb: "patch" }, cutAfterForwarding());
    expect(await setup.label("stored").catch(failureOf)).toBe("unreachable");
    expect(await valueOf(setup)).toBe("stored");
  });

  it("asks the client to slow down, which comes back no sooner than told", async () => {
    await using setup = await start("fault-slow");
    using rule = setup.proxy.on({ verb: "patch" }, tooManyRequests(1, { plainText: true }), { times: 1 });
    await setup.label("late");
    expect(await valueOf(setup)).toBe("late");
    const [refused, accepted] = setup.proxy.requests;
    expect([refused?.status, accepted?.status]).toEqual([429, 200]);
    expect((accepted?.at ?? 0) - (refused?.at ?? 0)).toBeGreaterThanOrEqual(999);
    expect(rule.hits).toBe(1);
  });

  it("holds an event while the server has moved on", async () => {
    await using setup = await start("fault-hold");
    await using watch = await watchNode(setup);
    const events = watch[Symbol.asyncIterator]();
    expect(await nextEvent(events)).toBe("ADDED ");
    const held = hold();
    using _rule = setup.proxy.onWatchEvent({ type: "MODIFIED" }, held);
    await setup.label("one");
    await setup.label("two");
    await held.until();
    expect(await valueOf(setup)).toBe("two");
    expect(held.held).toMatchObject([{ type: "MODIFIED", objectName: setup.node }]);
    held.release();
    expect([await nextEvent(events), await nextEvent(events)]).toEqual(["MODIFIED one", "MODIFIED two"]);
  });

  it("ends a watch with 410 in the place of an event", async () => {
    await using setup = await start("fault-gone");
    await using watch = await watchNode(setup);
    const events = watch[Symbol.asyncIterator]();
    expect(await nextEvent(events)).toBe("ADDED ");
    using rule = setup.proxy.onWatchEvent({ type: "MODIFIED" }, errorEvent(410));
    await setup.label("one");
    expect(await nextEvent(events).catch(failureOf)).toBe("expired");
    await setup.proxy.untilOpenStreams(0);
    expect(rule.hits).toBe(1);
  });
});

describe("the TCP proxy in front of a real API server", () => {
  it("carries a client, fails it on a reset, and carries it again", async () => {
    const cluster = await sharedTestCluster();
    await using link = await startTcpProxy({ target: new URL(cluster.url) });
    await using client = cluster.connect({ server: link.url });
    expect(await client.read("/readyz")).toBe("ok");
    using playback = link.play([
      { after: { bytes: 1, direction: "clientToServer" }, do: () => link.resetAll() },
    ]);
    expect(await client.read("/readyz").catch(failureOf)).toBe("unreachable");
    expect(await playback.done).toBe(true);
    expect(await client.read("/readyz")).toBe("ok");
  });
});
