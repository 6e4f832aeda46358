import { Readable } from "node:stream";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { WatchEvent } from "./client.ts";
import { Deadline } from "./deadline.ts";
import { isApiError } from "./failure.ts";
import { nodes } from "./generated/resources.ts";
import type { Node } from "./generated/wire.ts";
import type { KubeObject } from "./object.ts";
import { decoderOf } from "./protobuf/decoder.ts";
import { encode, frame } from "./protobuf/testing/encode.ts";
import { FrameSplitter, LineSplitter } from "./watch-splitters.ts";
import { EventStream, parseEvent } from "./watch-stream.ts";

const MIB = 1024 * 1024;
const info = { verb: "watch", resource: "nodes" } as const;

function open(
  pieces: Iterable<Buffer> | AsyncIterable<Buffer>,
  project?: (object: KubeObject) => KubeObject,
) {
  const body = Readable.from(pieces, { objectMode: false });
  const deadline = new Deadline(60_000);
  const stream = new EventStream({ body, deadline }, info, new LineSplitter(), parseEvent, project);
  return { stream, deadline, body };
}

/** The same in protobuf, with the names of objects. */
function openProtobuf(pieces: Iterable<Buffer> | AsyncIterable<Buffer>) {
  const project = Object.assign((node: Node) => node, { fields: { metadata: { name: "all" } } as const });
  const decoder = decoderOf(nodes, project);
  const body = Readable.from(pieces, { objectMode: false });
  const deadline = new Deadline(60_000);
  const parse = (bytes: Buffer) => decoder?.event(bytes) ?? null;
  return { stream: new EventStream({ body, deadline }, info, new FrameSplitter(), parse), deadline, body };
}

const line = (value: unknown): string => `${JSON.stringify(value)}\n`;
const added = (name: string): string => line({ type: "ADDED", object: { metadata: { name } } });

/** What was delivered, and what it ended with. */
async function drain({
  stream,
}: ReturnType<typeof open>): Promise<{ events: WatchEvent<KubeObject>[]; error: unknown }> {
  const events: WatchEvent<KubeObject>[] = [];
  try {
    for await (const event of stream) events.push(event);
    return { events, error: undefined };
  } catch (error) {
    return { events, error };
  }
}

/** Cuts `bytes` at these places (in any order, as fractions of the whole). */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => Math.floor(place * bytes.length)), bytes.length].sort(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

describe("a watch in JSON", () => {
  it("gives the same events however the network cuts the bytes", async () => {
    const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ unit: "grapheme" })), fc.array(place), async (names, places) => {
        const { events, error } = await drain(open(cut(Buffer.from(names.map(added).join("")), places)));
        expect(error).toBeUndefined();
        expect(events.map((event) => event.type !== "BOOKMARK" && event.object.metadata?.name)).toEqual(
          names,
        );
      }),
    );
  });

  it("knows bookmarks, and the one that ends the initial events", async () => {
    const bookmark = (annotations: object): string =>
      line({ type: "BOOKMARK", object: { metadata: { resourceVersion: "7", annotations } } });
    const { events } = await drain(
      open([Buffer.from(bookmark({}) + bookmark({ "k8s.io/initial-events-end": "true" }))]),
    );
    expect(events).toEqual([
      { type: "BOOKMARK", resourceVersion: "7", initialEventsEnd: false },
      { type: "BOOKMARK", resourceVersion: "7", initialEventsEnd: true },
    ]);
  });

  it("projects what it has parsed, deleted objects as well", async () => {
    const wire = line({ type: "DELETED", object: { metadata: { name: "a", managedFields: [{}] } } });
    const opened = open([Buffer.from(wire)], ({ metadata }) => ({
      metadata: { name: metadata?.name ?? "" },
    }));
    expect((await drain(opened)).events).toEqual([{ type: "DELETED", object: { metadata: { name: "a" } } }]);
  });

  it.each([
    ["no JSON", "<html>\n"],
    ["half an object", '{"type":"ADDED","object":{"metad\n'],
    ["no object", line({ type: "ADDED" })],
    ["no type", line({ object: {} })],
    ["an unknown type", line({ type: "MOVED", object: {} })],
    ["a bookmark without a version", line({ type: "BOOKMARK", object: {} })],
    ["JSON that is no event", "null\n"],
    ["an end in the middle of an event", added("a").slice(0, -5)],
  ])("T-7 does not pass over %s", async (_, bytes) => {
    const { events, error } = await drain(open([Buffer.from(added("before") + bytes)]));
    expect(events).toHaveLength(1);
    expect(isApiError(error, "undecodable")).toBe(true);
  });

  it("does not quote the line that it cannot read, which may be a Secret", async () => {
    const { error } = await drain(open([Buffer.from('hunter2{"type":\n')]));
    expect(isApiError(error, "undecodable") && [error.message, error.cause]).toEqual([
      expect.not.stringContaining("hunter2"),
      undefined,
    ]);
  });

  it("stops reading a line that does not end", async () => {
    let sent = 0;
    const endless = async function* (): AsyncGenerator<Buffer> {
      for (; sent < 64; sent++) yield Buffer.alloc(MIB, "x");
    };
    const { error } = await drain(open(endless()));
    expect(isApiError(error, "undecodable")).toBe(true);
    expect(sent).toBeLessThan(20);
  });

  it("ends the request when its reader breaks off, or disposes it unread", async () => {
    const read = open([Buffer.from(added("a") + added("b"))]);
    for await (const event of read.stream) {
      expect(event.type).toBe("ADDED");
      break;
    }
    expect(read.deadline.signal.aborted).toBe(true);
    const unread = open([Buffer.from(added("a"))]);
    await unread.stream[Symbol.asyncDispose]();
    expect(unread.deadline.signal.aborted).toBe(true);
    expect(unread.body.destroyed).toBe(true);
  });
});

describe("a watch in protobuf", () => {
  const named = (name: string): Buffer => encode([1, encode([1, name])]);

  it("gives the same events however the network cuts the bytes", async () => {
    const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
    const name = fc.string({ unit: "grapheme", minLength: 1 });
    await fc.assert(
      fc.asyncProperty(fc.array(name), fc.array(place), async (names, places) => {
        const bytes = Buffer.concat(names.map((name) => frame("ADDED", named(name))));
        const { events, error } = await drain(openProtobuf(cut(bytes, places)));
        expect(error).toBeUndefined();
        expect(events.map((event) => event.type !== "BOOKMARK" && event.object.metadata?.name)).toEqual(
          names,
        );
      }),
    );
  });

  it("knows bookmarks, and the one that ends the initial events", async () => {
    const end = encode([1, "k8s.io/initial-events-end"], [2, "true"]);
    const bookmarks = [encode([6, "7"]), encode([6, "8"], [12, end])].map((it) => encode([1, it]));
    const { events } = await drain(openProtobuf(bookmarks.map((it) => frame("BOOKMARK", it))));
    expect(events).toEqual([
      { type: "BOOKMARK", resourceVersion: "7", initialEventsEnd: false },
      { type: "BOOKMARK", resourceVersion: "8", initialEventsEnd: true },
    ]);
  });

  it("fails with the Status of an ERROR event", async () => {
    const { error } = await drain(
      openProtobuf([frame("ERROR", encode([3, "too old"], [4, "Expired"], [6, 410]))]),
    );
    expect(isApiError(error, "expired") && error.message).toContain("too old");
  });

  it("stops reading an event that is longer than any, as soon as it says so", async () => {
    let sent = 0;
    const endless = async function* (): AsyncGenerator<Buffer> {
      for (; sent < 64; sent++) yield Buffer.alloc(MIB, "x");
    };
    const { error } = await drain(openProtobuf(endless()));
    expect(isApiError(error, "undecodable") && error.message).toContain("longer than");
    expect(sent).toBeLessThan(5);
  });

  it.each([
    ["stream ends inside an event", frame("ADDED", named("a")).subarray(0, -1)],
    ["event is no protobuf", Buffer.from([0, 0, 0, 2, 0x0a, 9])],
    ["event has no object", Buffer.from([0, 0, 0, 0])],
    ["length is beyond all events", Buffer.from("HTTP/1.1 502")],
  ])("fails when the %s", async (_, bytes) => {
    const { events, error } = await drain(openProtobuf([bytes]));
    expect(events).toEqual([]);
    expect(isApiError(error, "undecodable")).toBe(true);
  });
});
