/** S-6 What a peer at 127.0.0.2 does to the reviews of another at 127.0.0.1: nothing. Over real connections. */
import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import type { TLSSocket } from "node:tls";
import { createAuthority, eventually } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { type AdmissionPeer, listen, type Origin, startAdmissionPeer } from "../testing/admission-peer.ts";
import type { AdmissionServerOptions } from "./server.ts";

const MIB = 1024 * 1024;
const HOSTILE: Origin = { localAddress: "127.0.0.2" };

const start = (options: Partial<AdmissionServerOptions> = {}): Promise<AdmissionPeer> =>
  startAdmissionPeer({ handlers: { "/h": () => ({ allowed: true }) }, ...options });

/** Headers that announce a body of this length. */
const head = (length: number): string => `POST /h HTTP/1.1\r\nhost: a\r\ncontent-length: ${length}\r\n\r\n`;
const review = (object: unknown): string => JSON.stringify({ request: { uid: "u", object } });
/** As large as a review of two objects of the largest size is. */
const largeReview = review("x".repeat(3 * MIB));
const bracesOf = (bytes: number): string => `{"request":{"object":[${"{},".repeat(bytes / 3 - 10)}{}]}}`;
const imagesOf = (count: number): string =>
  review({ spec: { containers: Array.from({ length: count }, (_, index) => ({ image: `i${index}` })) } });

/** Connections over which all of a body but its last byte is sent. */
async function sendSlowly(peer: AdmissionPeer, count: number, length: number): Promise<readonly TLSSocket[]> {
  const body = "x".repeat(length - 1);
  return Promise.all(
    Array.from({ length: count }, async () => {
      const socket = await peer.open(HOSTILE);
      socket.write(head(length));
      socket.write(body);
      return socket.resume();
    }),
  );
}

describe("S-6 an honest review is answered", () => {
  it.each([
    [9, 7 * MIB],
    [12, 5 * MIB],
    [200, 60_000],
  ])("while another peer sends %i bodies of %i bytes and never ends them", async (count, length) => {
    // The attack lasts longer than the test.
    await using peer = await start({ requestTimeoutMs: 60_000 });
    const sockets = await sendSlowly(peer, count, length);
    // What they have sent has arrived.
    expect((await peer.call("/healthz")).status).toBe(200);
    const honest = await Promise.all(
      [review({}), largeReview, review({})].map((body) => peer.call("/h", { body })),
    );
    expect(honest.map(({ status }) => status)).toEqual([200, 200, 200]);
    for (const socket of sockets) socket.destroy();
  });

  it("while another peer opens as many connections as it can", async () => {
    await using peer = await start({ requestTimeoutMs: 60_000 });
    const sockets = Array.from({ length: 1100 }, () =>
      connectTcp({ port: peer.port, host: "127.0.0.1", ...HOSTILE }).on("error", () => undefined),
    );
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    expect((await peer.call("/h", { body: review({}) })).status).toBe(200);
    for (const socket of sockets) socket.destroy();
  });
});

it.each([
  ["7 MiB of {},", () => bracesOf(7 * MIB)],
  ["4.9 MiB of {},", () => bracesOf(4.9 * MIB)],
  ["305,834 images", () => imagesOf(305_834)],
  ["200,000 images", () => imagesOf(200_000)],
  ["deep nesting", () => "[".repeat(100_000)],
])("S-6 a body is refused before it is parsed that is %s, eight at once", async (_what, bodyOf) => {
  let asked = 0;
  await using peer = await start({ handlers: { "/h": () => ({ allowed: asked++ < 0 }) } });
  const body = bodyOf();
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => peer.call("/h", { body, from: HOSTILE })),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(413));
  expect(asked).toBe(0);
});

it("S-6 a body is refused before it is parsed whose client has had two seconds, also when it comes byte by byte", async () => {
  const clock = createVirtualClock();
  await using peer = await start({ clock });
  const socket = await peer.open();
  const answer = listen(socket, head(100));
  await eventually(() => expect(clock.nextInMs).toBe(2000));
  for (let sent = 0; sent < 4; sent++) {
    socket.write("{");
    await clock.advance(500);
  }
  expect((await answer).response?.status).toBe(408);
  socket.destroy();
});

describe("S-6 an API server that shows its certificate", () => {
  it("is not bounded by what others at its address take, and one without a certificate is", async () => {
    const clients = await createAuthority();
    const certificate = await clients.issueClient("kube-apiserver", []);
    await using peer = await start({ requestTimeoutMs: 60_000, clientAuthority: clients.certificate });
    const sockets = await sendSlowly(peer, 3, 5 * MIB);
    // OpenSSL calls a session that is resumed verified, also when no certificate was shown in it.
    const [session] = (await once((await peer.open(HOSTILE)).resume(), "session")) as [Buffer];
    const answered: string[] = [];
    const call = async (name: string, from: Origin): Promise<void> => {
      const { status } = await peer.call("/h", { body: largeReview, from: { ...HOSTILE, ...from } });
      answered.push(`${name} ${status}`);
    };
    const waiting = [call("none", {}), call("resumed", { session })];
    await call("verified", { certificate });
    expect(answered).toEqual(["verified 200"]);
    for (const socket of sockets) socket.destroy();
    await Promise.all(waiting);
    expect(answered.toSorted()).toEqual(["none 200", "resumed 200", "verified 200"]);
  });

  it("is refused with the certificate of another authority", async () => {
    const [clients, others] = [await createAuthority(), await createAuthority()];
    const certificate = await others.issueClient("kube-apiserver", []);
    await using peer = await start({ clientAuthority: clients.certificate });
    await expect(peer.call("/healthz", { from: { certificate } })).rejects.toThrow("without an answer");
    expect((await peer.call("/healthz")).status).toBe(200);
  });

  it("may have more connections than others", async () => {
    const clients = await createAuthority();
    const certificate = await clients.issueClient("kube-apiserver", []);
    await using peer = await start({ clientAuthority: clients.certificate });
    const open = (count: number, from: Origin): Promise<readonly PromiseSettledResult<TLSSocket>[]> =>
      Promise.allSettled(Array.from({ length: count }, () => peer.open({ ...HOSTILE, ...from })));
    const sockets = [...(await open(200, { certificate })), ...(await open(200, { certificate }))];
    expect(sockets.filter(({ status }) => status === "rejected")).toEqual([]);
    for (const socket of sockets) if (socket.status === "fulfilled") socket.value.destroy();
  });
});
