/** What is about the wire and needs no Kubernetes: a server of our own on plain HTTP/1.1, as `kubectl proxy` is one. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
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
    for (const asked of [client.get(nodes, { name: "n1" }), client.create(nodes, {}), client.watch(nodes)]) {
      const error: unknown = await asked.catch((cause: unknown) => cause);
      expect(error).toMatchObject({ failure: { kind: "unreachable" } });
      expect((error as ApiError).failure).toEqual({
        kind: "unreachable",
        ...(noConnection && { noConnection }),
      });
    }
  }
});

describe("a server without HTTP/2", () => {
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

describe("what is sent", () => {
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
