/** Requests to a real HTTP server on this machine. */
import { once } from "node:events";
import { mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@berth/runtime";
import { createAuthority, startForwardProxy } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createPost, type PostResult } from "./post.ts";

const post = createPost(systemClock, "berth-test");

interface Target extends AsyncDisposable {
  readonly origin: string;
}

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

async function serve(answer: Answer): Promise<Target> {
  const server = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function send({ origin }: Target, { timeoutMs = 20_000, body = {} } = {}): Promise<PostResult> {
  return post(`${origin}/secret?token=secret`, body, { timeoutMs, signal: new AbortController().signal });
}

it("sends JSON", async () => {
  const seen = Promise.withResolvers<unknown>();
  await using target = await serve(async (request, response) => {
    const { method, url, headers } = request;
    seen.resolve({ method, url, type: headers["content-type"], body: await text(request) });
    response.writeHead(204).end();
  });
  expect(await send(target, { body: { node: "n" } })).toEqual({ result: "accepted" });
  expect(await seen.promise).toEqual({
    method: "POST",
    url: "/secret?token=secret",
    type: "application/json",
    body: '{"node":"n"}',
  });
});

it.each<
  [number, Record<string, string>, { readonly result: PostResult["result"]; readonly retryAfterMs?: number }]
>([
  [200, {}, { result: "accepted" }],
  [302, { location: "/elsewhere" }, { result: "refused" }],
  [400, {}, { result: "refused" }],
  [404, { "retry-after": "5" }, { result: "refused" }],
  [408, {}, { result: "failed" }],
  [429, { "retry-after": "7" }, { result: "failed", retryAfterMs: 7_000 }],
  [429, { "retry-after": "999999999" }, { result: "failed", retryAfterMs: 3_600_000 }],
  [503, { "retry-after": "soon" }, { result: "failed" }],
  [503, { "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, { result: "failed" }],
  [500, {}, { result: "failed" }],
])("takes status %i with %j as %j", async (status, headers, expected) => {
  let requests = 0;
  await using target = await serve((_, response) => {
    requests += 1;
    response.writeHead(status, headers).end("garbage");
  });
  const problem = `${target.origin} answers with status ${status}`;
  expect(await send(target)).toEqual(expected.result === "accepted" ? expected : { ...expected, problem });
  expect(requests).toBe(1);
});

it("takes a date in Retry-After", async () => {
  const at = new Date(Date.now() + 60_000).toUTCString();
  await using target = await serve((_, response) => response.writeHead(503, { "retry-after": at }).end());
  const { retryAfterMs = 0 } = (await send(target)) as { readonly retryAfterMs?: number };
  expect(retryAfterMs).toBeGreaterThan(30_000);
  expect(retryAfterMs).toBeLessThanOrEqual(60_000);
});

it("leaves a body that does not end, and accepts what the status says", async () => {
  const left = Promise.withResolvers<void>();
  await using target = await serve((_, response) => {
    response.on("close", () => left.resolve());
    response.writeHead(200).write("x".repeat(5_000));
  });
  expect(await send(target)).toEqual({ result: "accepted" });
  await left.promise;
});

it("ends a request at its timeout, and at its signal", async () => {
  await using target = await serve(() => undefined);
  const problem = `${target.origin} does not answer: it took longer than 50 ms`;
  expect(await send(target, { timeoutMs: 50 })).toEqual({ result: "failed", problem });
  const stopped = post(target.origin, {}, { timeoutMs: 20_000, signal: AbortSignal.abort() });
  expect(await stopped).toMatchObject({ result: "failed" });
});

it("names only the origin of a server that is down or that speaks no HTTP", async () => {
  const down = await serve(() => undefined);
  await down[Symbol.asyncDispose]();
  expect(await send(down)).toEqual({
    result: "failed",
    problem: `${down.origin} does not answer: ECONNREFUSED`,
  });
  await using garbage = await serve((request) => request.socket.end("no HTTP at all\r\n\r\n"));
  expect(await send(garbage)).toMatchObject({
    result: "failed",
    problem: expect.stringMatching(
      /^http:\/\/127\.0\.0\.1:\d+ does not answer: [A-Z_]+$|: the HTTP exchange failed$/,
    ),
  });
});

describe("through a proxy", () => {
  const HOST = "inventory.example";
  const login = { name: "me", password: "correct-horse" };
  const options = { timeoutMs: 20_000, signal: new AbortController().signal };

  it("reaches https with an authority of a file, also where only the proxy finds the name", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "berth-post-"));
    const caFile = join(folder.path, "ca.pem");
    const authority = await createAuthority();
    await writeFile(caFile, authority.certificate);
    const { certificate: cert, key } = await authority.issueServing([HOST]);
    const server = createTlsServer({ cert, key }, (_, response) => response.end()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const place = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    await using proxy = await startForwardProxy({ user: login, hosts: { [`${HOST}:443`]: place } });
    const postThrough = createPost(systemClock, "berth-test", () => proxy.url);
    const url = `https://${HOST}/secret`;
    expect(await postThrough(url, {}, { ...options, caFile })).toEqual({ result: "accepted" });
    expect(proxy.requests).toEqual([`CONNECT ${HOST}:443`]);
    const failure = `https://${HOST} does not answer through the proxy 127.0.0.1:${proxy.port}: `;
    expect(await postThrough(url, {}, options)).toEqual({
      result: "failed",
      problem: `${failure}UNABLE_TO_VERIFY_LEAF_SIGNATURE`,
    });
    await rm(caFile);
    expect(await postThrough(url, {}, { ...options, caFile })).toEqual({
      result: "failed",
      problem: `the authorities in ${caFile} cannot be read: ENOENT`,
    });
    server.close();
  });

  it("forwards plain http", async () => {
    await using target = await serve((_, response) => response.end());
    const hosts = { [HOST]: new URL(target.origin).host };
    await using proxy = await startForwardProxy({ user: login, hosts });
    const postThrough = createPost(systemClock, "berth-test", () => proxy.url);
    expect(await postThrough(`http://${HOST}/x?y`, {}, options)).toEqual({ result: "accepted" });
    expect(proxy.requests).toEqual([`POST http://${HOST}/x?y`]);
  });

  it.each([
    ["refuses", { status: 403 }, "https", "ERR_PROXY_TUNNEL"],
    ["wants a login", { user: login }, "https", "ERR_PROXY_TUNNEL"],
    ["wants a login for plain http", { user: login }, "http", "the proxy wants a login, or another one"],
  ])("that %s, fails without a password", async (_, given, scheme, why) => {
    await using proxy = await startForwardProxy(given);
    const postThrough = createPost(
      systemClock,
      "berth-test",
      () => `http://me:wrong@127.0.0.1:${proxy.port}`,
    );
    const answer = await postThrough(`${scheme}://${HOST}`, {}, options);
    expect(answer).toMatchObject({ problem: expect.stringContaining(why) });
    expect(JSON.stringify(answer)).not.toContain("wrong");
  });
});
