/** Certificates that change, connections that say nothing, and the end. */
import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { eventually } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { type Answer, servingAuthority, startAdmissionPeer } from "../testing/admission-peer.ts";
import { createRecordingMetrics } from "../testing/recording-metrics.ts";
import type { CertificatePair } from "./certificate-authority.ts";

const authority = await servingAuthority();

const body = JSON.stringify({ request: { uid: "u-1" } });

/** A handler that answers when it is let. */
function createGate() {
  const [asked, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  return {
    handler: async () => {
      asked.resolve();
      await opened.promise;
      return { allowed: true };
    },
    asked: asked.promise,
    open: () => opened.resolve(),
  };
}

describe("the serving certificate", () => {
  it("is the latest one on new connections, and the next answer ends those made with an earlier one", async () => {
    let current = await authority.issue();
    await using peer = await startAdmissionPeer({ certificate: () => current });
    const first = (await peer.call("/healthz")).serialNumber;
    using kept = peer.keep();
    const call = (): Promise<Answer> => kept.call("/healthz");
    const keptOpen = { serialNumber: first, headers: { connection: "keep-alive" } };
    expect(await call()).toMatchObject(keptOpen);
    current = await authority.issue();
    const second = (await peer.call("/healthz")).serialNumber;
    expect(second).not.toBe(first);
    expect(await call()).toMatchObject({ serialNumber: first, headers: { connection: "close" } });
    expect(await call()).toMatchObject({ serialNumber: second, headers: { connection: "keep-alive" } });
    // Noticed by a request alone as well, without a new connection.
    current = await authority.issue();
    expect(await call()).toMatchObject({ serialNumber: second, headers: { connection: "close" } });
  });

  it("that changes while a request is decided does not disturb it", async () => {
    let current = await authority.issue();
    const gate = createGate();
    await using peer = await startAdmissionPeer({
      certificate: () => current,
      handlers: { "/h": gate.handler },
    });
    using kept = peer.keep();
    const answer = kept.call("/h", { body });
    await gate.asked;
    current = await authority.issue();
    const { serialNumber } = await peer.call("/healthz");
    gate.open();
    expect(await answer).toMatchObject({ status: 200, headers: { connection: "close" } });
    expect((await kept.call("/healthz")).serialNumber).toBe(serialNumber);
  });

  it("is not resumed by a session ticket of an earlier one", async () => {
    let current = await authority.issue();
    await using peer = await startAdmissionPeer({ certificate: () => current });
    const sessions: Buffer[] = [];
    const open = async (session?: Buffer): Promise<TLSSocket> => {
      const { ca } = authority;
      const socket = connectTls({ host: "127.0.0.1", port: peer.port, ca, ...(session && { session }) });
      socket.on("session", (ticket) => sessions.push(ticket)).resume();
      await once(socket, "secureConnect");
      return socket;
    };
    const first = await open();
    const [ticket] = await eventually(() => {
      expect(sessions.length).toBeGreaterThan(0);
      return sessions;
    });
    const resumed = await open(ticket);
    expect(resumed.isSessionReused()).toBe(true);
    current = await authority.issue();
    const afresh = await open(ticket);
    expect(afresh.isSessionReused()).toBe(false);
    expect(afresh.getPeerCertificate().serialNumber).not.toBe(first.getPeerCertificate().serialNumber);
    for (const socket of [first, resumed, afresh]) socket.destroy();
  });

  it("stays when the next one is garbage, does not fit its key or cannot be told, until there is a good one", async () => {
    const good = await authority.issue();
    let current = (): CertificatePair => good;
    await using peer = await startAdmissionPeer({ certificate: () => current() });
    const { serialNumber } = await peer.call("/readyz");
    const other = await authority.issue();
    for (const bad of [
      { certificate: "garbage", key: "garbage" },
      { certificate: other.certificate, key: good.key },
      { certificate: "", key: "" },
      undefined,
    ]) {
      current = () => {
        if (bad === undefined) throw new Error("cannot tell");
        return bad;
      };
      expect(await peer.call("/readyz")).toMatchObject({ status: 200, serialNumber });
    }
    current = () => other;
    expect((await peer.call("/readyz")).serialNumber).not.toBe(serialNumber);
  });

  it("that is missing fails handshakes, until there is one", async () => {
    const good = await authority.issue();
    let current: CertificatePair | undefined;
    const metrics = createRecordingMetrics();
    await using peer = await startAdmissionPeer({ certificate: () => current, metrics });
    await expect(peer.call("/healthz")).rejects.toThrow("handshake failure");
    current = good;
    expect((await peer.call("/readyz")).status).toBe(200);
    current = undefined;
    await expect(peer.call("/readyz")).rejects.toThrow("handshake failure");
    expect(metrics.value("admission_tls_handshake_failures_total")).toBe(2);
  });
});

describe("a connection", () => {
  it("needs TLS 1.2", async () => {
    await using peer = await startAdmissionPeer();
    const open = async (version: "TLSv1.1" | "TLSv1.2" | "TLSv1.3"): Promise<string | null> => {
      const socket = connectTls({
        host: "127.0.0.1",
        port: peer.port,
        ca: authority.ca,
        minVersion: "TLSv1",
        maxVersion: version,
        // OpenSSL offers the old versions at this level only.
        ciphers: "DEFAULT@SECLEVEL=0",
      });
      await once(socket, "secureConnect");
      const protocol = socket.getProtocol();
      socket.destroy();
      return protocol;
    };
    await expect(open("TLSv1.1")).rejects.toThrow("alert protocol version");
    expect(await open("TLSv1.2")).toBe("TLSv1.2");
    expect(await open("TLSv1.3")).toBe("TLSv1.3");
  });

  it.each([
    ["nothing", (_socket: Socket) => undefined],
    ["plain HTTP", (socket: Socket) => socket.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")],
    ["half a TLS record", (socket: Socket) => socket.write(Buffer.from([0x16, 3, 1, 2, 0, 1]))],
  ])("that says %s instead of its handshake is closed, and others are served", async (_what, say) => {
    const metrics = createRecordingMetrics();
    // Others have to be through with their handshakes in that time.
    await using peer = await startAdmissionPeer({ requestTimeoutMs: 2_000, metrics });
    const socket = connectTcp(peer.port, "127.0.0.1").on("error", () => undefined);
    const closed = once(socket, "close");
    await once(socket, "connect");
    say(socket);
    socket.resume();
    expect((await peer.call("/healthz")).status).toBe(200);
    await closed;
    await eventually(() => expect(metrics.value("admission_tls_handshake_failures_total")).toBe(1));
  });

  it("that says nothing or half a request after its handshake is closed", async () => {
    await using peer = await startAdmissionPeer({ requestTimeoutMs: 200 });
    const sockets = await Promise.all([peer.open(), peer.open()]);
    sockets[1]?.write("POST /h HTTP/1.1\r\n");
    await Promise.all(sockets.map((socket) => once(socket.resume(), "close")));
    expect((await peer.call("/healthz")).status).toBe(200);
  });
});

it("disposing accepts nothing new, and lets what is in flight end", async () => {
  const gate = createGate();
  await using peer = await startAdmissionPeer({ handlers: { "/h": gate.handler }, drainMs: 20_000 });
  using kept = peer.keep();
  const answer = kept.call("/h", { body });
  await gate.asked;
  const stopped = peer.stop();
  await expect(peer.call("/healthz")).rejects.toThrow("ECONNREFUSED");
  gate.open();
  expect(await answer).toMatchObject({ status: 200, headers: { connection: "close" } });
  await stopped;
});

it("disposing answers on a connection that was just used, until no request has come for 200 ms", async () => {
  const clock = createVirtualClock();
  const handlers = { "/h": () => ({ allowed: true }) };
  await using peer = await startAdmissionPeer({ handlers, clock, drainMs: 20_000 });
  const kept = [peer.keep(), peer.keep(), peer.keep()];
  for (const one of kept) await one.call("/h", { body });
  const stopped = peer.stop();
  for (const one of kept.slice(1)) {
    await clock.advance(199);
    expect(await one.call("/h", { body })).toMatchObject({ status: 200, headers: { connection: "close" } });
  }
  await clock.advance(220);
  await stopped;
});

it("disposing cuts off what does not end in time, handshakes included, and leaves no handle", async () => {
  const handles = (): number =>
    process.getActiveResourcesInfo().filter((name) => /^(TCP|TLS)/.test(name)).length;
  await eventually(() => expect(handles()).toBe(0));
  const gate = createGate();
  const peer = await startAdmissionPeer({
    handlers: { "/h": gate.handler },
    drainMs: 50,
    requestTimeoutMs: 60_000,
  });
  const silent = connectTcp(peer.port, "127.0.0.1");
  await once(silent, "connect");
  const idle = await peer.open();
  const answer = peer.call("/h", { body });
  const cut = answer.catch((error: Error) => error.message);
  await gate.asked;
  const closed = Promise.all([once(silent.resume(), "close"), once(idle.resume(), "close")]);
  await peer.stop();
  await peer.stop();
  await closed;
  expect(await cut).toBe("the server closed the connection without an answer");
  await eventually(() => expect(handles()).toBe(0));
});
