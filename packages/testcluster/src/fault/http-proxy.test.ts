import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import {
  answer,
  answerAfterForwarding,
  conflict,
  cutAfterForwarding,
  cutBefore,
  expired,
  internalError,
  invalid,
  type RequestAction,
  tooManyRequests,
} from "./actions.ts";
import { hold } from "./hold.ts";
import type { ObservedRequest, Reply } from "./interceptor.ts";
import { type Handler, type HttpVersion, type ProxySetup, startProxySetup } from "./testing/proxy-setup.ts";

/** Says what it got. */
const mirror: Handler = (request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { method, url, headers } = request;
    response.setHeader("content-type", "application/json");
    response.setHeader("audit-id", "a1");
    response.statusCode = method === "POST" ? 201 : 200;
    response.end(JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }));
  });
};

interface Mirrored {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

const NODE = "/api/v1/nodes/n1";

async function patchStatus(setup: ProxySetup, path = NODE): Promise<number | string> {
  try {
    const { statusCode, body } = await setup.send("PATCH", path, { body: "{}" });
    await body.dump();
    return statusCode;
  } catch (error) {
    return error instanceof Error ? "broken" : "unknown";
  }
}

describe.each<HttpVersion>(["HTTP/1.1", "HTTP/2"])("the HTTP proxy with a client of %s", (version) => {
  describe("without rules", () => {
    it("forwards method, path, credentials and body, and the answer with its headers", async () => {
      await using setup = await startProxySetup(version, mirror);
      const { statusCode, headers, body } = await setup.send("POST", "/api/v1/nodes?dryRun=All", {
        headers: { authorization: "Bearer secret", "user-agent": "t/1", "content-type": "application/json" },
        body: '{"kind":"Node"}',
      });
      const seen = (await body.json()) as Mirrored;
      expect(statusCode).toBe(201);
      expect(headers["audit-id"]).toBe("a1");
      expect(seen).toMatchObject({
        method: "POST",
        url: "/api/v1/nodes?dryRun=All",
        headers: { authorization: "Bearer secret", "content-type": "application/json" },
        body: '{"kind":"Node"}',
      });
      expect(Object.keys(seen.headers).filter((name) => name.startsWith(":"))).toEqual([]);
      expect(setup.proxy.requests).toMatchObject([
        { sequence: 1, verb: "create", resource: "nodes", userAgent: "t/1", status: 201 },
      ]);
      expect(JSON.stringify(setup.proxy.requests)).not.toContain("secret");
    });

    it("streams a body of unknown length, also on DELETE", async () => {
      await using setup = await startProxySetup(version, mirror);
      const parts = ["a".repeat(100_000), "b".repeat(100_000)];
      const { body } = await setup.send("DELETE", NODE, {
        body: (async function* () {
          for (const part of parts) yield Buffer.from(part);
        })() as unknown as Uint8Array,
      });
      expect(((await body.json()) as Mirrored).body).toBe(parts.join(""));
    });

    it("carries a large answer whole, and many requests at once", async () => {
      const big = "x".repeat(5_000_000);
      await using setup = await startProxySetup(version, (_request, response) => response.end(big));
      const lengths = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const { body } = await setup.send("GET", "/api/v1/pods");
          return (await body.text()).length;
        }),
      );
      expect(lengths).toEqual(Array(8).fill(big.length));
    });

    it("breaks off the request to the server when the client goes away", async () => {
      const begun = Promise.withResolvers<void>();
      const closed = Promise.withResolvers<void>();
      await using setup = await startProxySetup(version, (_request, response) => {
        response.once("close", () => closed.resolve());
        begun.resolve();
      });
      const leave = new AbortController();
      const [outcome] = await Promise.allSettled([
        setup.send("GET", NODE, { signal: leave.signal }),
        begun.promise.then(() => leave.abort()),
      ]);
      expect(outcome.status).toBe("rejected");
      await closed.promise;
      expect(setup.proxy.requests[0]?.status).toBe("gone");
    });

    it("breaks off the client when the server resets before an answer", async () => {
      await using setup = await startProxySetup(version, (request) => request.socket.destroy());
      expect(await patchStatus(setup)).toBe("broken");
      expect(setup.proxy.requests[0]?.status).toBe("cut");
    });

    it("breaks off the client when the server resets in the middle of an answer", async () => {
      await using setup = await startProxySetup(version, (_request, response) => void response.write("half"));
      const { statusCode, body } = await setup.send("GET", NODE);
      expect(statusCode).toBe(200);
      for (const socket of setup.sockets) socket.destroy();
      const [read] = await Promise.allSettled([body.text()]);
      expect(read.status).toBe("rejected");
    });
  });

  describe("answers of its own", () => {
    it.each([
      ["conflict", conflict(), 409, { reason: "Conflict" }],
      ["invalid", invalid([]), 422, { reason: "Invalid" }],
      ["too many requests", tooManyRequests(7), 429, { details: { retryAfterSeconds: 7 } }],
      ["internal error", internalError(), 500, { reason: "InternalError" }],
      ["expired", expired(), 410, { reason: "Expired" }],
      ["any other", answer(409, { reason: "AlreadyExists" }), 409, { reason: "AlreadyExists" }],
    ])("%s, as a Status, and the server never sees the request", async (_name, action, code, expected) => {
      await using setup = await startProxySetup(version, mirror);
      const rule = setup.proxy.on({ verb: "patch", resource: "nodes" }, action);
      const { statusCode, body } = await setup.send("PATCH", NODE, { body: "x".repeat(300_000) });
      expect(statusCode).toBe(code);
      expect(await body.json()).toMatchObject({
        kind: "Status",
        apiVersion: "v1",
        status: "Failure",
        code,
        ...expected,
        details: { name: "n1", kind: "nodes", ...("details" in expected ? expected.details : {}) },
      });
      expect(setup.received).toEqual([]);
      expect(rule.hits).toBe(1);
    });

    it("carries causes, and Retry-After as a header, in text as priority and fairness does", async () => {
      await using setup = await startProxySetup(version, mirror);
      const causes = [{ field: "metadata.uid", reason: "FieldValueInvalid", message: "other" }];
      using first = setup.proxy.on({}, invalid(causes), { times: 1 });
      using second = setup.proxy.on({}, tooManyRequests(3, { plainText: true }));
      const refused = await setup.send("PATCH", NODE, { body: "{}" });
      expect(await refused.body.json()).toMatchObject({ details: { causes } });
      const slowed = await setup.send("PATCH", NODE, { body: "{}" });
      expect(slowed.headers).toMatchObject({
        "retry-after": "3",
        "content-type": "text/plain; charset=utf-8",
      });
      expect(await slowed.body.text()).not.toContain("{");
      expect([first.hits, second.hits]).toEqual([1, 1]);
    });
  });

  describe("cuts", () => {
    it.each<[string, RequestAction, number | string, readonly string[]]>([
      ["before the server sees the request", cutBefore(), "broken", []],
      ["after the server has carried it out", cutAfterForwarding(), "broken", [`PATCH ${NODE}`]],
      ["after that too, with an answer of its own", answerAfterForwarding(500), 500, [`PATCH ${NODE}`]],
    ])("%s, once, then no more", async (_when, action, status, received) => {
      await using setup = await startProxySetup(version, mirror);
      using rule = setup.proxy.on({ verb: "patch" }, action, { times: 1 });
      expect(await patchStatus(setup)).toBe(status);
      expect(setup.received).toEqual(received);
      expect(setup.proxy.requests[0]?.status).toBe(status === "broken" ? "cut" : status);
      expect(await patchStatus(setup)).toBe(200);
      expect(rule.hits).toBe(1);
    });

    it("with the whole connection", async () => {
      await using setup = await startProxySetup(version, mirror);
      using _rule = setup.proxy.on({ verb: "patch" }, cutBefore({ scope: "connection" }), { times: 1 });
      const closed = once(setup.client, "disconnect");
      expect(await patchStatus(setup)).toBe("broken");
      await closed;
      expect(await patchStatus(setup)).toBe(200);
    });
  });

  describe("holding and delaying", () => {
    it("holds requests until released, one by one or all", async () => {
      await using setup = await startProxySetup(version, mirror);
      const held = hold();
      using rule = setup.proxy.on({ verb: "patch" }, held);
      const answers = [patchStatus(setup, `${NODE}?a`), patchStatus(setup, `${NODE}?b`)];
      await held.until(2);
      expect(setup.received).toEqual([]);
      expect(held.held).toHaveLength(2);
      expect(held.releaseNext()).toBe(true);
      expect(await Promise.race(answers)).toBe(200);
      expect(setup.received).toHaveLength(1);
      held.release();
      expect(await Promise.all(answers)).toEqual([200, 200]);
      expect(held.releaseNext()).toBe(false);
      expect(await patchStatus(setup)).toBe(200);
      expect(rule.hits).toBe(3);
    });

    it("does not forward a held request whose client has gone", async () => {
      await using setup = await startProxySetup(version, mirror);
      const held = hold();
      using _rule = setup.proxy.on({ verb: "patch" }, held);
      const leave = new AbortController();
      await Promise.allSettled([
        setup.send("PATCH", NODE, { body: "{}", signal: leave.signal }),
        held.until().then(() => leave.abort()),
      ]);
      await setup.proxy.until({}, 1);
      const { statusCode } = await setup.send("GET", NODE);
      expect(statusCode).toBe(200);
      held.release();
      expect(setup.received).toEqual([`GET ${NODE}`]);
    });

    it("is disposed at once while something is held", async () => {
      const setup = await startProxySetup(version, mirror);
      const held = hold();
      setup.proxy.on({}, held);
      const answer = patchStatus(setup);
      await held.until();
      await setup[Symbol.asyncDispose]();
      expect(await answer).toBe("broken");
    });
  });

  describe("matching and observing", () => {
    it("acts only on what fits, and no more once disposed", async () => {
      await using setup = await startProxySetup(version, mirror);
      const status = "/api/v1/nodes/n1/status";
      using object = setup.proxy.on({ resource: "nodes", subresource: "" }, answer(409));
      using group = setup.proxy.on({ resource: "leases.coordination.k8s.io", namespace: "a" }, answer(500));
      using agent = setup.proxy.on({ userAgent: /^noisy/g, verb: ["get", "list"] }, answer(429));
      expect(await patchStatus(setup)).toBe(409);
      expect(await patchStatus(setup, status)).toBe(200);
      expect(await patchStatus(setup, "/apis/coordination.k8s.io/v1/namespaces/a/leases/l")).toBe(500);
      expect(await patchStatus(setup, "/apis/coordination.k8s.io/v1/namespaces/b/leases/l")).toBe(200);
      for (const path of ["/api/v1/pods", "/api/v1/namespaces/a/pods/p"]) {
        const { statusCode } = await setup.send("GET", path, { headers: { "user-agent": "noisy/2" } });
        expect(statusCode).toBe(429);
      }
      object[Symbol.dispose]();
      expect(await patchStatus(setup)).toBe(200);
      expect([object.hits, group.hits, agent.hits]).toEqual([1, 1, 2]);
      expect(setup.proxy.count({ verb: "patch", resource: "nodes" })).toBe(3);
      expect(setup.proxy.count({ path: /namespaces\/b\// })).toBe(1);
    });

    it("shows requests to interceptors in order, with the server's answer", async () => {
      await using setup = await startProxySetup(version, mirror);
      const story: string[] = [];
      const note = async (request: ObservedRequest, forward: () => Promise<Reply>): Promise<Reply> => {
        story.push(`${request.sequence} ${request.verb} ${request.name}`);
        const reply = await forward();
        story.push(`${request.sequence} ${reply.kind}`);
        return reply;
      };
      using _interceptor = setup.proxy.intercept({ request: note });
      using _rule = setup.proxy.on({ name: "n2" }, conflict());
      await patchStatus(setup);
      await patchStatus(setup, "/api/v1/nodes/n2");
      expect(story).toEqual(["1 patch n1", "1 forwarded", "2 patch n2", "2 answer"]);
    });

    it("cuts the request when a hook throws, and says so at the end", async () => {
      const setup = await startProxySetup(version, mirror);
      setup.proxy.intercept({ request: () => Promise.reject(new RangeError("a mistake")) });
      expect(await patchStatus(setup)).toBe("broken");
      await expect(setup[Symbol.asyncDispose]()).rejects.toThrow("a mistake");
    });
  });
});

it("HTTP/2 cuts one stream and leaves the others of the connection alone", async () => {
  const waiting = Promise.withResolvers<ServerResponse>();
  await using setup = await startProxySetup("HTTP/2", (request, response) => {
    if (request.url === "/slow") waiting.resolve(response);
    else mirror(request, response);
  });
  using _rule = setup.proxy.on({ verb: "patch" }, cutBefore());
  let connections = 0;
  setup.client.on("connect", () => {
    connections += 1;
  });
  const slow = setup.send("GET", "/slow");
  const response = await waiting.promise;
  expect(await patchStatus(setup)).toBe("broken");
  response.end("late");
  expect(await (await slow).body.text()).toBe("late");
  expect(connections).toBe(1);
});
