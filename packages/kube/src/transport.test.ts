/** What is about the wire and needs no Kubernetes: a server of our own on plain HTTP/1.1, as `kubectl proxy` is one. */
import { channel } from "node:diagnostics_channel";
import { EventEmitter } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate as soon } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import type { KubeClient } from "./client.ts";
import { bearerToken } from "./credential.ts";
import type { ApiError, RequestInfo } from "./failure.ts";
import { nodes, pods } from "./generated/resources.ts";
import { type ConnectOptions, connect } from "./rest-client.ts";
import { isConfidential, type RequestOutcome } from "./transport.ts";

interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

interface Served extends AsyncDisposable {
  readonly url: string;
  readonly received: readonly Received[];
}

async function serve(handler: (request: Received, response: ServerResponse) => void): Promise<Served> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const { method = "", url = "", headers } = request;
      const whole = { method, url, headers, body: await text(request) };
      received.push(whole);
      handler(whole, response);
    };
    void answer();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const connectTo = (server: string, options: Partial<ConnectOptions> = {}): ReturnType<typeof connect> =>
  connect({ server, credential: bearerToken("t0ken"), ...options });

it("a client bounds each request that has no limit of its own", async () => {
  await using server = await serve(() => undefined);
  await using client = connectTo(server.url, { timeoutMs: 50 });
  const asked = [client.get(nodes, { name: "a" }), client.list(nodes), client.list(nodes, { timeoutMs: 60 })];
  const limits = (await Promise.allSettled(asked)).map((it) => it.status === "rejected" && it.reason.failure);
  expect(limits).toEqual([50, 50, 60].map((afterMs) => ({ kind: "timeout", afterMs })));
});

it("a server that is not there is told from one that breaks off", async () => {
  await using breaking = await serve((_, response) => void response.destroy());
  const { url } = await serve(() => undefined).then(async (server) => {
    await server[Symbol.asyncDispose]();
    return server;
  });
  for (const [server, noConnection] of [
    [url, true],
    [breaking.url, undefined],
  ] as const) {
    await using client = connectTo(server);
    const asked = [client.get(nodes, { name: "n1" }), client.create(nodes, {}), client.watch(nodes)];
    for (const error of await Promise.all(asked.map((it) => it.catch((cause: unknown) => cause)))) {
      expect(error).toMatchObject({ failure: { kind: "unreachable" } });
      expect((error as ApiError).failure).toEqual({
        kind: "unreachable",
        ...(noConnection && { noConnection }),
      });
    }
  }
});

describe("a server without HTTP/2", () => {
  it("has a minute to end a watch once its time is over, then the client ends it", async () => {
    await using server = await serve((_, response) => response.writeHead(200).flushHeaders());
    await using client = connectTo(server.url);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const watch = await client.watch(nodes, { timeoutSeconds: 300 });
      const next = watch[Symbol.asyncIterator]().next();
      const ended = next.catch((error: unknown) => error);
      vi.advanceTimersByTime(359_999);
      expect(await Promise.race([ended, soon("open")])).toBe("open");
      vi.advanceTimersByTime(1);
      expect(await ended).toMatchObject({ failure: { kind: "unreachable" } });
      expect(String(await ended)).toContain("the server did not end the watch in time");
    } finally {
      vi.useRealTimers();
    }
  });

  it("answers reads while watches are open, and a quiet watch on it is not taken for dead", async () => {
    await using server = await serve(({ url }, response) => {
      if (url.includes("watch=true")) response.writeHead(200).flushHeaders();
      else response.end(JSON.stringify({ metadata: { name: "n1" } }));
    });
    const silenceMs = 30;
    await using client = connectTo(server.url, { silenceMs });
    const watches = await Promise.all(Array.from({ length: 5 }, () => client.watch(nodes)));
    const ended = Promise.race(watches.map((watch) => watch[Symbol.asyncIterator]().next()));
    ended.catch(() => undefined);
    const startedAt = performance.now();
    while (performance.now() - startedAt < 10 * silenceMs) {
      const node = await client.get(nodes, { name: "n1" });
      expect(node.metadata?.name).toBe("n1");
    }
    expect(await Promise.race([ended, Promise.resolve("open")])).toBe("open");
    expect(client.openSockets).toBeLessThan(10);
  });
});

it("an error of a stream that its request does not know any more ends nothing", async () => {
  await using server = await serve((_, response) => response.end("{}"));
  await using one = connectTo(server.url);
  await using other = connectTo(server.url);
  for (const client of [one, other]) await client.get(nodes, { name: "n1" });
  const stream = new EventEmitter();
  channel("http2.client.stream.created").publish({ stream });
  expect(stream.listenerCount("error")).toBe(1);
  expect(() => stream.emit("error", new Error("the connection failed"))).not.toThrow();
});

it("reads one by one have a single connection, and one that gets no answer ends with its deadline", async () => {
  const silent = { is: true };
  await using server = await serve((_, response) => {
    if (!silent.is) response.end(JSON.stringify({ metadata: { name: "n1" } }));
  });
  await using client = connectTo(server.url, { readsOneByOne: true });
  const read = (timeoutMs: number) => client.get(nodes, { name: "n1" }, { timeoutMs });
  await expect(read(30)).rejects.toMatchObject({ failure: { kind: "timeout" } });
  silent.is = false;
  const names = await Promise.all(Array.from({ length: 5 }, async () => (await read(5_000)).metadata?.name));
  expect([names, client.openSockets]).toEqual([Array(5).fill("n1"), 1]);
});

it("onWarning hears what the API server warns of, in answers and at the begin of a watch", async () => {
  await using server = await serve((_, response) => {
    response.writeHead(200, { warning: '299 - "it is deprecated"' });
    response.end("{}");
  });
  const heard: string[] = [];
  const onWarning = (text: string, { verb }: RequestInfo): void => void heard.push(`${verb}: ${text}`);
  await using client = connectTo(server.url, { onWarning });
  await client.get(nodes, { name: "n1" });
  await using _watch = await client.watch(nodes);
  expect(heard).toEqual(["get: it is deprecated", "watch: it is deprecated"]);
});

describe("what is sent", () => {
  it("asks the server to refuse unknown fields where that is wanted", async () => {
    await using server = await serve((_, response) => response.end("{}"));
    await using client = connectTo(server.url);
    await client.create(nodes, {}, { fieldValidation: "Strict" });
    expect(server.received[0]?.url).toContain("fieldValidation=Strict");
  });

  it.each<[string, (client: KubeClient) => Promise<unknown>]>([
    ["a creation", (client) => client.create(pods, {})],
    ["a deletion of a collection", (client) => client.deleteCollection(pods, {})],
    ["a read", (client) => client.get(pods, { name: "p" })],
  ])("%s without a namespace is refused at once, and says so", async (_, send) => {
    await using server = await serve((_, response) => response.end("{}"));
    await using client = connectTo(server.url, { cluster: "dfw-01" });
    await expect(send(client)).rejects.toThrow("Pod is namespaced and no namespace is given");
    await expect(send(client)).rejects.toMatchObject({ request: { cluster: "dfw-01" } });
    expect(server.received).toEqual([]);
  });

  it("T-13 names the patch format, the field manager and what else the server must know", async () => {
    await using server = await serve((_, response) => response.end("{}"));
    await using client = connectTo(`${server.url}/prefix/`, { userAgent: "me/1", fieldManager: "mine" });
    const of = { name: "a%b" };
    await client.patch(nodes, of, { type: "merge", body: {} });
    await client.patch(nodes, of, { type: "json", body: [] }, { fieldManager: "x", dryRun: true });
    await client.patch(nodes, of, { type: "strategic", body: {} }, { subresource: "status" });
    await client.apply(nodes, { metadata: of }, { force: true });
    const path = "/prefix/api/v1/nodes/a%25b";
    expect(server.received.map(({ url, headers }) => [headers["content-type"], url])).toEqual([
      ["application/merge-patch+json", `${path}?fieldManager=mine`],
      ["application/json-patch+json", `${path}?fieldManager=x&dryRun=All`],
      ["application/strategic-merge-patch+json", `${path}/status?fieldManager=mine`],
      ["application/apply-patch+yaml", `${path}?fieldManager=mine&force=true`],
    ]);
    expect(server.received[0]?.headers).toMatchObject({
      "user-agent": "me/1",
      accept: "application/json",
      authorization: "Bearer t0ken",
    });
  });

  it("spreads the ends of watches over five minutes, so that not all come back together", async () => {
    await using server = await serve((_, response) => response.end());
    await using client = connectTo(server.url);
    for (let count = 0; count < 20; count++) await client.watch(nodes);
    const seconds = server.received.map(({ url }) => Number(/timeoutSeconds=(\d+)/.exec(url)?.[1]));
    for (const each of seconds) expect(each >= 300 && each < 600).toBe(true);
    expect(new Set(seconds).size).toBeGreaterThan(5);
  });
});

describe("a write of which only the version is needed", () => {
  const of = { name: "n1" };
  const patch = { type: "merge", body: {} } as const;
  const head =
    '{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u","resourceVersion":"7","labels":{';
  const rest = '"a":"b"}}}';
  const whole = head + rest;
  const MIB = 1024 * 1024;
  type Play = (response: ServerResponse) => void;
  const begin = (response: ServerResponse, text: string, status = 200): void => {
    response.writeHead(status, { "content-length": 40 * MIB });
    response.write(text);
  };
  const large = (response: ServerResponse, status: number): void => {
    begin(response, head, status);
    response.end(Buffer.alloc(40 * MIB - head.length, "x"));
  };
  const slow: Play = (response) => {
    let at = 0;
    const next = (): void => {
      if (at === whole.length) return void response.end();
      response.write(whole.slice(at, ++at), () => setImmediate(next));
    };
    next();
  };

  it.each<[string, Play, number?]>([
    ["in one piece", (response) => void response.end(whole)],
    ["byte by byte", slow],
    ["with invalid JSON after the version", (response) => void response.end(`${head}]]]`)],
    [
      "that is cut after the version",
      (response) => {
        begin(response, head);
        setImmediate(() => response.destroy());
      },
    ],
    ["of 40 MB", (response) => large(response, 200)],
    ["that hangs after the version", (response) => begin(response, head), 1000],
  ])("counts as written by an answer %s", async (_, play, timeoutMs = 30_000) => {
    await using server = await serve((_request, response) => play(response));
    await using client = connectTo(server.url, { maxWriteConnections: 1 });
    // Whatever the connection has come to, the next write has one.
    for (const count of [1, 2]) {
      const { metadata } = await client.patch(nodes, of, patch, { versionOnly: true, timeoutMs });
      expect([metadata, server.received.length]).toEqual([{ resourceVersion: "7" }, count]);
    }
  });

  it.each<[string, Play, object]>([
    ["is cut before the version", (response) => response.destroy(), { kind: "unreachable" }],
    [
      "is cut inside the version",
      (response) => {
        begin(response, head.slice(0, head.indexOf('7"') + 1));
        setImmediate(() => response.destroy());
      },
      { kind: "unreachable" },
    ],
    ["hangs before the version", (response) => begin(response, "{"), { kind: "timeout", afterMs: 300 }],
    ["is no JSON", (response) => void response.end("<html>"), { kind: "undecodable" }],
    [
      "is a conflict",
      (response) => void response.writeHead(409).end(whole),
      { kind: "conflict", causes: [] },
    ],
    [
      "is a conflict that hangs",
      (response) => response.writeHead(409, { "content-length": MIB }).flushHeaders(),
      { kind: "conflict", causes: [] },
    ],
    ["is a refusal of 40 MB", (response) => large(response, 500), { kind: "serverError", status: 500 }],
  ])("is not taken for written when its answer %s", async (_, play, failure) => {
    await using server = await serve((_request, response) => play(response));
    await using client = connectTo(server.url);
    const asked = client.patch(nodes, of, patch, { versionOnly: true, timeoutMs: 300 });
    await expect(asked).rejects.toMatchObject({ failure });
  });

  it("waits as long as a 429 asks, and is sent again", async () => {
    await using server = await serve((_request, response) => {
      if (server.received.length > 1) response.end(whole);
      else response.writeHead(429, { "retry-after": "1" }).end();
    });
    await using client = connectTo(server.url);
    const { metadata } = await client.patch(nodes, of, patch, { versionOnly: true });
    expect([metadata?.resourceVersion, server.received.length]).toEqual(["7", 2]);
  });

  it("takes no annotation for the version: custom resources begin in another way, and are read whole", async () => {
    const metadata = { annotations: { resourceVersion: "666" }, name: "n1", resourceVersion: "7" };
    await using server = await serve((_request, response) => {
      response.end(JSON.stringify({ apiVersion: "v1", kind: "Node", metadata }));
    });
    await using client = connectTo(server.url);
    expect((await client.patch(nodes, of, patch, { versionOnly: true })).metadata).toEqual(metadata);
  });
});

it("onAnswer hears of every attempt, refused and unanswered ones as well", async () => {
  const answers: [string, RequestOutcome][] = [];
  const onAnswer = ({ verb }: RequestInfo, outcome: RequestOutcome, tookMs: number): void => {
    expect(tookMs).toBeGreaterThanOrEqual(0);
    answers.push([verb, outcome]);
  };
  await using server = await serve(({ method, url }, response) => {
    if (method === "GET") response.writeHead(url.includes("limit") ? 200 : 401).end("{}");
    else response.destroy();
  });
  await using client = connectTo(server.url, { onAnswer });
  await client.list(nodes);
  await client.get(nodes, { name: "a" }).catch(() => undefined);
  await client.delete(nodes, { name: "a" }).catch(() => undefined);
  expect(answers).toEqual([
    ["list", "ok"],
    ["get", "unauthorized"],
    ["get", "unauthorized"],
    ["delete", "unreachable"],
  ]);
});

describe("a name that is too long for any object", () => {
  it.each([254, 1_200_000])("of %i characters is refused here, and not written out", async (length) => {
    await using server = await serve((_request, response) => response.end("{}"));
    await using client = connectTo(server.url);
    const name = "a".repeat(length);
    const asked = [
      client.get(nodes, { name }),
      client.delete(nodes, { name }),
      client.get(pods, { namespace: name, name: "a" }),
    ];
    for (const request of asked) {
      const error: unknown = await request.catch((reason: unknown) => reason);
      expect(error).toMatchObject({ failure: { kind: "invalid" }, retry: "never" });
      expect(String(error).length).toBeLessThan(500);
    }
    expect(server.received).toEqual([]);
    await client.get(nodes, { name: "a".repeat(253) });
    expect(server.received).toHaveLength(1);
  });
});

it.each(["http://example.com", "ws://127.0.0.1", "http://127.0.0.1.example.com", "ftp://10.0.0.1"])(
  "credentials do not go to %s",
  (server) => {
    const open = (): unknown => connectTo(server);
    expect(open).toThrow("credentials would be readable");
    expect(open).not.toThrow("t0ken");
  },
);

it.each(["https://example.com", "http://localhost:1", "http://127.9.9.9", "http://[::1]:80", "http://127.1"])(
  "credentials may go to %s",
  (server) => {
    expect(isConfidential(new URL(server))).toBe(true);
  },
);

it.each(["a", "/", "/a/", "//a", "/a/../b", "/a/%2E%2e/b", "/a?b", "/a#b", "/a b"])(
  "under refuses %j, which is not a path",
  async (path) => {
    await using client = connectTo("https://127.0.0.1:1");
    expect(() => client.under(path)).toThrow(TypeError);
  },
);
