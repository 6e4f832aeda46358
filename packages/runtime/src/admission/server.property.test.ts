/** Whatever comes over a connection, in whatever pieces: there is an HTTP answer or none, and the server lives on. */
import { once } from "node:events";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AdmissionPeer, listen, startAdmissionPeer } from "../testing/admission-peer.ts";
import { seededRun } from "../testing/property.ts";
import type { AdmissionHandler } from "./review-exchange.ts";

const MAX_BODY_BYTES = 2000;

/** Walks the object by recursion, as careless handlers do. */
const count: AdmissionHandler = ({ object }) => {
  const sizeOf = (value: unknown): number =>
    typeof value === "object" && value !== null
      ? Object.values(value).reduce((sum: number, item) => sum + sizeOf(item), 1)
      : 1;
  return { allowed: true, patch: [{ op: "add", path: "/size", value: sizeOf(object) }] };
};

/** @param requestTimeoutMs short where a request may never be complete. A busy machine is late with a complete one. */
const startServer = (requestTimeoutMs = 20_000): Promise<AdmissionPeer> =>
  startAdmissionPeer({ handlers: { "/h": count }, maxBodyBytes: MAX_BODY_BYTES, requestTimeoutMs });

const text = (value: string): Uint8Array => Buffer.from(value, "latin1");
const post = (body: string, announced: number = body.length): string =>
  `POST /h?timeout=1s HTTP/1.1\r\nhost: a\r\ncontent-length: ${announced}\r\n\r\n${body}`;
const review = (object: unknown): string => JSON.stringify({ request: { uid: "u", object } });

/** Cut anywhere into pieces, so that nothing relies on how bytes arrive. */
const inPieces = (whole: fc.Arbitrary<Uint8Array>): fc.Arbitrary<readonly Uint8Array[]> =>
  fc.tuple(whole, fc.array(fc.nat(3000), { maxLength: 4 })).map(([bytes, cuts]) => {
    const edges = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b), bytes.length];
    return edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
  });

const nested = fc
  .nat(1200)
  .map((levels) => `{"request":{"object":${"[".repeat(levels)}${"]".repeat(levels)}}}`);
const keys = fc
  .nat(400)
  .map((count) => review(Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 0]))));
const truncated = fc
  .tuple(fc.jsonValue(), fc.nat(200))
  .map(([value, length]) => review(value).slice(0, length));
const bodies = fc.oneof(
  fc.jsonValue().map(review),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  truncated,
  nested,
  keys,
  fc.nat(3 * MAX_BODY_BYTES).map((length) => review("x".repeat(length))),
);

describe("an admission server", () => {
  const complete = seededRun(150, process.env);
  it(`answers every complete request (${complete.name})`, complete.options, async () => {
    await using peer = await startServer();
    const request = inPieces(
      bodies
        .map((body) => Buffer.from(body))
        .map((body) => Buffer.concat([text(post("", body.length)), body])),
    );
    await fc.assert(
      fc.asyncProperty(request, async (pieces) => {
        const socket = await peer.open();
        const { response } = await listen(socket, ...pieces);
        socket.destroy();
        expect([200, 400, 413]).toContain(response?.status);
      }),
      complete.parameters,
    );
    expect((await peer.call("/readyz")).body).toBe("ready");
  });

  const broken = seededRun(60, process.env);
  it(`answers what is malformed, or hangs up, and lives on (${broken.name})`, broken.options, async () => {
    await using peer = await startServer(300);
    const malformed = fc
      .tuple(bodies, fc.nat(400), fc.uint8Array({ maxLength: 20 }), fc.nat(400))
      .map(([body, until, inserted, from]) => {
        const whole = text(post(body));
        return Buffer.concat([whole.subarray(0, until), inserted, whole.subarray(from)]);
      });
    const chunked = fc
      .string({ maxLength: 60 })
      .map((body) => text(`POST /h HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n${body}`));
    const stream = inPieces(fc.oneof(malformed, chunked, fc.uint8Array({ minLength: 1, maxLength: 300 })));
    await fc.assert(
      fc.asyncProperty(fc.array(stream, { minLength: 4, maxLength: 8 }), async (streams) => {
        // Side by side, as each may have to be waited out.
        await Promise.all(
          streams.map(async (pieces) => {
            const socket = await peer.open();
            const { said, response } = await listen(socket, ...pieces);
            socket.destroy();
            expect(said === "" || response !== undefined).toBe(true);
          }),
        );
        expect((await peer.call("/h", { body: review({}) })).status).toBe(200);
      }),
      { ...broken.parameters, numRuns: Math.ceil(broken.parameters.numRuns / 4) },
    );
  });

  it("lives on when clients leave in the middle", async () => {
    await using peer = await startServer();
    const whole = post(review({ a: "b" }));
    for (let length = 0; length <= whole.length; length += 7) {
      const socket = await peer.open();
      socket.end(whole.slice(0, length));
      socket.resume();
      await once(socket, "close");
    }
    expect((await peer.call("/readyz")).body).toBe("ready");
  });
});
