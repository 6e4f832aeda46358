import type { ServerResponse } from "node:http";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutStream, delay, dropEvent, errorEvent } from "./actions.ts";
import { hold } from "./hold.ts";
import { type HttpVersion, readLines, startProxySetup } from "./testing/proxy-setup.ts";

const WATCH = "/api/v1/nodes?watch=1&allowWatchBookmarks=true";

/** A target whose watches the test feeds, and one watch through the proxy that is read line by line. */
async function startWatch(version: HttpVersion, contentType = "application/json") {
  await using undo = new AsyncDisposableStack();
  const opened = Promise.withResolvers<ServerResponse>();
  const setup = undo.use(
    await startProxySetup(version, (_request, response) => {
      response.writeHead(200, { "content-type": contentType });
      response.flushHeaders();
      opened.resolve(response);
    }),
  );
  const { statusCode, body } = await setup.send("GET", WATCH);
  const server = await opened.promise;
  const lines = readLines(body);
  const owned = undo.move();
  return {
    ...setup,
    status: statusCode,
    server,
    lines,
    emit: (type: string, name: string) => void server.write(eventLine(type, name)),
    /** The next event as `TYPE name`; `end` after the last one, `broken` when the stream was reset. */
    next: (): Promise<string> => lines.next().then(toText, () => "broken"),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function eventLine(type: string, name: string): string {
  return `${JSON.stringify({ type, object: { kind: "Node", metadata: { name } } })}\n`;
}

function toText({ done, value }: IteratorResult<string>): string {
  if (done) return "end";
  const event = JSON.parse(value) as {
    type: string;
    object: { metadata?: { name?: string }; code?: number };
  };
  return `${event.type} ${event.object.metadata?.name ?? event.object.code ?? ""}`;
}

describe.each<HttpVersion>(["HTTP/1.1", "HTTP/2"])("a watch through the HTTP proxy over %s", (version) => {
  it("opens before the first event, streams each event at once, and ends when the server ends it", async () => {
    await using watch = await startWatch(version);
    expect(watch.status).toBe(200);
    await watch.proxy.untilOpenStreams(1);
    for (const name of ["a", "b"]) {
      watch.emit("ADDED", name);
      expect(await watch.next()).toBe(`ADDED ${name}`);
    }
    watch.server.end();
    expect(await watch.next()).toBe("end");
    await watch.proxy.untilOpenStreams(0);
    expect(watch.proxy.requests).toMatchObject([{ verb: "watch", resource: "nodes", status: 200 }]);
  });

  it("ends the watch at the server when the client leaves", async () => {
    await using watch = await startWatch(version);
    const closed = new Promise((resolve) => watch.server.once("close", resolve));
    await watch.client.destroy();
    await closed;
    await watch.proxy.untilOpenStreams(0);
    expect(watch.proxy.openStreams).toBe(0);
  });

  it("resets the client when the server resets", async () => {
    await using watch = await startWatch(version);
    watch.emit("ADDED", "a");
    expect(await watch.next()).toBe("ADDED a");
    for (const socket of watch.sockets) socket.destroy();
    expect(await watch.next()).toBe("broken");
  });

  it("holds the stream at an event until released, in order", async () => {
    await using watch = await startWatch(version);
    const held = hold();
    using rule = watch.proxy.onWatchEvent({ type: "MODIFIED", objectName: "b" }, held);
    watch.emit("ADDED", "a");
    watch.emit("MODIFIED", "b");
    watch.emit("DELETED", "c");
    expect(await watch.next()).toBe("ADDED a");
    await held.until();
    expect(held.held).toMatchObject([{ sequence: 2, type: "MODIFIED", objectName: "b" }]);
    held.release();
    expect([await watch.next(), await watch.next()]).toEqual(["MODIFIED b", "DELETED c"]);
    expect(rule.hits).toBe(1);
  });

  it("drops events", async () => {
    await using watch = await startWatch(version);
    using rule = watch.proxy.onWatchEvent({ type: ["MODIFIED", "DELETED"] }, dropEvent(), { times: 1 });
    for (const name of ["a", "b"]) watch.emit("MODIFIED", name);
    expect(await watch.next()).toBe("MODIFIED b");
    expect(rule.hits).toBe(1);
  });

  it.each(["before", "after"] as const)(
    "cuts the stream %s an event, and at the server as well",
    async (when) => {
      await using watch = await startWatch(version);
      const closed = new Promise((resolve) => watch.server.once("close", resolve));
      using _rule = watch.proxy.onWatchEvent({ objectName: "b" }, cutStream(when));
      watch.emit("ADDED", "a");
      watch.emit("ADDED", "b");
      watch.emit("ADDED", "c");
      const seen = [await watch.next(), await watch.next()];
      if (when === "after") seen.push(await watch.next());
      expect(seen).toEqual(when === "after" ? ["ADDED a", "ADDED b", "broken"] : ["ADDED a", "broken"]);
      await closed;
    },
  );

  it.each([
    [410, "Expired"],
    [500, "InternalError"],
  ])("puts an ERROR event with %i in the place of an event and ends the stream", async (code, reason) => {
    await using watch = await startWatch(version);
    using _rule = watch.proxy.onWatchEvent({ type: "ADDED" }, errorEvent(code));
    watch.emit("ADDED", "a");
    const { value } = await watch.lines.next();
    expect(JSON.parse(String(value))).toMatchObject({
      type: "ERROR",
      object: { kind: "Status", code, reason },
    });
    expect(await watch.next()).toBe("end");
  });

  it("delays bookmarks without letting later events overtake them", async () => {
    await using watch = await startWatch(version);
    using _rule = watch.proxy.onWatchEvent({ type: "BOOKMARK" }, delay(30));
    const before = performance.now();
    watch.emit("BOOKMARK", "");
    watch.emit("ADDED", "a");
    expect([await watch.next(), await watch.next()]).toEqual(["BOOKMARK ", "ADDED a"]);
    expect(performance.now() - before).toBeGreaterThanOrEqual(29);
  });
});

describe("reading watches", () => {
  it("begins at the next whole event when a rule comes in the middle of one, and stops with the rule", async () => {
    await using watch = await startWatch("HTTP/2");
    const line = eventLine("ADDED", "a");
    watch.emit("ADDED", "first");
    expect(await watch.next()).toBe("ADDED first");
    watch.server.write(line.slice(0, 10));
    const half = watch.next();
    const numbered: number[] = [];
    const interceptor = watch.proxy.intercept({
      event: (event, next) => {
        numbered.push(event.sequence);
        return next();
      },
    });
    watch.server.write(line.slice(10));
    expect(await half).toBe("ADDED a");
    watch.emit("ADDED", "b");
    expect(await watch.next()).toBe("ADDED b");
    interceptor[Symbol.dispose]();
    watch.emit("ADDED", "c");
    expect(await watch.next()).toBe("ADDED c");
    expect(numbered.length).toBeGreaterThanOrEqual(1);
    expect(numbered.length).toBeLessThanOrEqual(2);
  });

  it("passes watches that are not JSON unread", async () => {
    await using watch = await startWatch("HTTP/2", "application/vnd.kubernetes.protobuf;stream=watch");
    using rule = watch.proxy.onWatchEvent({}, dropEvent());
    watch.emit("ADDED", "a");
    expect(await watch.next()).toBe("ADDED a");
    expect(rule.hits).toBe(0);
  });

  it("cuts the watch when an event hook throws, and says so at the end", async () => {
    const watch = await startWatch("HTTP/1.1");
    watch.proxy.intercept({ event: () => Promise.reject(new RangeError("a mistake")) });
    watch.emit("ADDED", "a");
    expect(await watch.next()).toBe("broken");
    await expect(watch[Symbol.asyncDispose]()).rejects.toThrow("a mistake");
  });

  it("shows every event once and in order to an interceptor that waits, however the bytes are cut up", async () => {
    await using watch = await startWatch("HTTP/2");
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 120 }), { minLength: 1, maxLength: 12 }),
        async (cuts) => {
          const names = Array.from({ length: 12 }, (_, index) => `n${index}`);
          const seen: string[] = [];
          using _interceptor = watch.proxy.intercept({
            async event({ objectName }, next) {
              await new Promise(setImmediate);
              seen.push(objectName);
              return next();
            },
          });
          let bytes = names.map((name) => eventLine("ADDED", name)).join("");
          for (let index = 0; bytes.length > 0; index += 1) {
            const size = cuts[index % cuts.length] ?? 1;
            watch.server.write(bytes.slice(0, size));
            bytes = bytes.slice(size);
            await new Promise(setImmediate);
          }
          const got: string[] = [];
          while (got.length < names.length) got.push(await watch.next());
          expect(got).toEqual(names.map((name) => `ADDED ${name}`));
          expect(seen).toEqual(names);
        },
      ),
      { numRuns: 15 },
    );
  });
});
