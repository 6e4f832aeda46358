import { once } from "node:events";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { startTcpProxy } from "./tcp-proxy.ts";
import { Client, echoes, startEcho } from "./testing/echo.ts";

async function startLink() {
  const stack = new AsyncDisposableStack();
  const echo = stack.use(await startEcho());
  const link = stack.use(await startTcpProxy({ target: { host: "127.0.0.1", port: echo.port } }));
  return { link, echo, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

describe("a TCP proxy without faults", () => {
  it("carries bytes and FIN both ways and counts them", async () => {
    await using setup = await startLink();
    using client = new Client(setup.link.port);
    client.socket.end("hello");
    await client.until(() => client.ended);
    expect(client.received.toString()).toBe("hello");
    await setup.link.until(({ open }) => open === 0);
    expect(setup.link.stats).toEqual({
      opened: 1,
      open: 0,
      refused: 0,
      clientToServer: { received: 5, delivered: 5, dropped: 0 },
      serverToClient: { received: 5, delivered: 5, dropped: 0 },
    });
  });

  it("hands a reset of the server on as a reset", async () => {
    await using setup = await startLink();
    using client = new Client(setup.link.port);
    await echoes(client, "x");
    for (const socket of setup.echo.sockets) socket.resetAndDestroy();
    await client.closed;
    expect(client.errorCode).toBe("ECONNRESET");
  });

  it("resets a client when the target does not answer", async () => {
    const gone = await startEcho();
    await gone[Symbol.asyncDispose]();
    await using link = await startTcpProxy({ target: new URL(`http://127.0.0.1:${gone.port}`) });
    expect(link.url).toBe(`http://127.0.0.1:${link.port}`);
    using client = new Client(link.port);
    await client.closed;
    expect(client.errorCode).toBe("ECONNRESET");
  });

  it("delivers every byte in order through any sequence of stall, delay and pass", async () => {
    await using setup = await startLink();
    const { link } = setup;
    const step = fc.oneof(
      fc.record({ send: fc.uint8Array({ minLength: 1, maxLength: 3000 }) }),
      fc.record({
        lane: fc.constantFrom("clientToServer" as const, "serverToClient" as const),
        mode: fc.integer({ min: -1, max: 3 }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        link.pass();
        using client = new Client(link.port);
        const sent: Uint8Array[] = [];
        for (const step of steps) {
          if ("send" in step) {
            sent.push(step.send);
            client.socket.write(step.send);
          } else if (step.mode < 0) link[step.lane].stall();
          else link[step.lane].delay(step.mode);
          await new Promise(setImmediate);
        }
        client.socket.end();
        link.pass();
        await client.until(() => client.ended);
        expect(client.received.equals(Buffer.concat(sent))).toBe(true);
      }),
      { numRuns: 40 },
    );
  });
});

describe("stall and delay", () => {
  it("holds bytes with back-pressure and delivers all of them after pass", async () => {
    await using setup = await startLink();
    setup.link.clientToServer.stall();
    using client = new Client(setup.link.port);
    await once(client.socket, "connect");
    const big = Buffer.alloc(32 * 1024 * 1024, "x");
    client.socket.write(big);
    await setup.link.until(({ opened }) => opened === 1);
    // The kernel takes what fits into its buffers; the rest stays with the sender.
    expect(client.socket.writableLength).toBeGreaterThan(0);
    expect(setup.link.stats.clientToServer.delivered).toBe(0);
    setup.link.pass();
    await setup.link.until(({ serverToClient }) => serverToClient.delivered === big.length);
    const all = { received: big.length, delivered: big.length, dropped: 0 };
    expect(setup.link.stats.clientToServer).toEqual(all);
  });

  it("stalls one direction and lets the other pass", async () => {
    await using setup = await startLink();
    using client = new Client(setup.link.port);
    setup.link.serverToClient.stall();
    client.socket.write("ping");
    await setup.link.until(({ clientToServer }) => clientToServer.delivered === 4);
    expect(client.received).toHaveLength(0);
    setup.link.serverToClient.pass();
    expect(await client.read("ping")).toBe("ping");
  });

  it("delays each direction, and pass delivers at once what was delayed", async () => {
    await using setup = await startLink();
    using client = new Client(setup.link.port);
    await once(client.socket, "connect");
    setup.link.delay(40);
    const before = performance.now();
    await echoes(client, "a");
    expect(performance.now() - before).toBeGreaterThanOrEqual(79);
    setup.link.delay(3_600_000);
    client.socket.write("b");
    await setup.link.until(({ clientToServer }) => clientToServer.received === 2);
    setup.link.pass();
    expect(await client.read("ab")).toBe("ab");
  });
});

it("`drop` swallows bytes and FIN, and a connection that lost something stays silent", async () => {
  await using setup = await startLink();
  using client = new Client(setup.link.port);
  await echoes(client, "x");
  setup.link.drop();
  client.socket.write("lost");
  await setup.link.until(({ clientToServer }) => clientToServer.dropped === 4);
  setup.link.pass();
  client.socket.end("late");
  await setup.link.until(({ clientToServer }) => clientToServer.dropped === 8);
  expect(setup.echo.sockets.size).toBe(1);
  using other = new Client(setup.link.port);
  await echoes(other, "new");
  expect(client.received.toString()).toBe("x");
  expect(client.ended).toBe(false);
});

it("`drop` accepts new connections that never reach the target", async () => {
  await using setup = await startLink();
  setup.link.drop();
  using client = new Client(setup.link.port);
  await once(client.socket, "connect");
  client.socket.write("anyone?");
  await setup.link.until(({ clientToServer }) => clientToServer.dropped === 7);
  expect(setup.echo.sockets.size).toBe(0);
  expect(setup.link.stats).toMatchObject({ opened: 1, open: 1 });
});

describe("reset, refuse and half-close", () => {
  it("resets both ends of open connections, stalled and silent ones as well", async () => {
    await using setup = await startLink();
    const { link, echo } = setup;
    using stalled = new Client(link.port);
    await echoes(stalled, "x");
    link.drop();
    using silent = new Client(link.port);
    await link.until(({ opened }) => opened === 2);
    link.stall();
    const serverSide = [...echo.sockets].map(
      (socket) => new Promise((resolve) => socket.once("close", resolve)),
    );
    link.resetAll();
    await Promise.all([stalled.closed, silent.closed, ...serverSide]);
    expect([stalled.errorCode, silent.errorCode]).toEqual(["ECONNRESET", "ECONNRESET"]);
    await link.until(({ open }) => open === 0);
  });

  it("refuses new connections, keeps old ones, and accepts again after pass", async () => {
    await using setup = await startLink();
    using old = new Client(setup.link.port);
    await echoes(old, "x");
    setup.link.refuse();
    using refused = new Client(setup.link.port);
    await refused.closed;
    expect(refused.errorCode).toBe("ECONNRESET");
    expect(setup.link.stats).toMatchObject({ opened: 1, refused: 1 });
    await echoes(old, "y", "xy");
    setup.link.pass();
    using accepted = new Client(setup.link.port);
    await echoes(accepted, "z");
  });

  it("half-closes: the client sees FIN and can still send", async () => {
    await using setup = await startLink();
    using client = new Client(setup.link.port);
    await echoes(client, "x");
    setup.link.halfClose();
    await client.until(() => client.ended);
    client.socket.write("still here");
    await setup.link.until(({ clientToServer }) => clientToServer.delivered === 11);
    expect(client.received.toString()).toBe("x");
  });
});

describe("scripts and conditions", () => {
  it("acts after exactly the bytes and connections named, one step after another", async () => {
    await using setup = await startLink();
    const { link } = setup;
    using playback = link.play([
      { after: { bytes: 3, direction: "clientToServer" }, do: () => link.clientToServer.stall() },
      { after: { connections: 1 }, do: () => link.pass() },
      { after: { ms: 1 }, do: () => link.refuse() },
    ]);
    using first = new Client(link.port);
    await echoes(first, "abcdef", "abc");
    using second = new Client(link.port);
    expect(await first.read("abcdef")).toBe("abcdef");
    expect(await playback.done).toBe(true);
    using third = new Client(link.port);
    await third.closed;
    expect(link.stats).toMatchObject({ opened: 2, refused: 1 });
    await echoes(second, "open");
  });

  it("ends a stopped script with false and a throwing one with its error", async () => {
    await using setup = await startLink();
    const stopped = setup.link.play([{ after: { connections: 1 }, do: () => {} }]);
    stopped[Symbol.dispose]();
    expect(await stopped.done).toBe(false);
    const fail = (): never => {
      throw new RangeError("no such step");
    };
    await expect(setup.link.play([{ after: { bytes: 0 }, do: fail }]).done).rejects.toThrow(RangeError);
  });

  it("rejects conditions that can no longer come true once it is closed", async () => {
    const setup = await startLink();
    const [waited] = await Promise.allSettled([
      setup.link.until(({ opened }) => opened === 1),
      setup[Symbol.asyncDispose](),
    ]);
    expect(waited).toMatchObject({ status: "rejected", reason: { message: "the TCP proxy was closed" } });
  });
});
