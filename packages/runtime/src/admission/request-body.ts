import type { IncomingMessage } from "node:http";
import type { Clock } from "../clock.ts";
import { createJsonMeter } from "./json-meter.ts";
import { createRoom } from "./room.ts";

/** How much of a body is taken, and for how long it is waited for. */
export interface BodyLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** A body, until disposed of; or why there is none: `gone` is a client that left. */
export type ReceivedBody = Disposable &
  (
    | { readonly kind: "complete"; readonly bytes: Uint8Array; readonly isSmall: boolean }
    | { readonly kind: "tooLarge" | "tooMany" | "tooSlow" | "gone" }
  );

/**
 * Reads a body of a peer; `undefined` is one that is trusted with as much room as there is. Never rejects. Of a body that is
 * refused, no more is read.
 */
export type BodyReader = (request: IncomingMessage, peer: string | undefined) => Promise<ReceivedBody>;

/** Bodies of up to this size have room of their own: almost all pods and nodes are a tenth of it. */
const SMALL_BYTES = 64 * 1024;
const SMALL_ROOM = 8 * 1024 * 1024;
/** Of the largest: a greedy peer has half of the room, and leaves enough for a review of two objects of 1.5 MiB. */
const LARGE_BODIES = 3;

/**
 * Creates a reader. Each body has its room before any of it is read, for all of its announced length; it waits for it within
 * its own time.
 */
export function createBodyReader({ maxBytes, timeoutMs, clock }: BodyLimits): BodyReader {
  const [small, large] = [createRoom(SMALL_ROOM), createRoom(LARGE_BODIES * maxBytes)];
  return async (request, peer) => {
    // Without a length it may become the largest.
    const length = Number(request.headers["content-length"] ?? maxBytes);
    if (length > maxBytes) return without("tooLarge");
    const over = new AbortController();
    using _timer = clock.schedule(timeoutMs, () => over.abort());
    const isSmall = length <= SMALL_BYTES;
    const place = await (isSmall ? small : large).wait(length, peer, over.signal);
    if (place === undefined) return without("tooMany");
    const buffer = Buffer.allocUnsafeSlow(length);
    const release = (): void => {
      // Gives the memory back now: the collector would let many bodies pile up.
      buffer.buffer.transfer(0);
      place[Symbol.dispose]();
    };
    const end = await readInto(buffer, request, over.signal);
    if (typeof end === "number")
      return { kind: "complete", bytes: buffer.subarray(0, end), isSmall, [Symbol.dispose]: release };
    release();
    return without(end);
  };
}

function without(kind: "tooLarge" | "tooMany" | "tooSlow" | "gone"): ReceivedBody {
  return { kind, [Symbol.dispose]: () => undefined };
}

/** Reads until the request ends, and gives its length; or until it is too large, time is up or the client goes. */
function readInto(
  buffer: Buffer,
  request: IncomingMessage,
  over: AbortSignal,
): Promise<number | "tooLarge" | "tooSlow" | "gone"> {
  return new Promise((resolve) => {
    const isWithin = createJsonMeter();
    let length = 0;
    const finish = (end: number | "tooLarge" | "tooSlow" | "gone"): void => {
      over.removeEventListener("abort", onOver);
      request.off("data", onData).off("end", onEnd).off("close", onGone);
      request.pause();
      resolve(end);
    };
    const onData = (chunk: Buffer): void => {
      if (length + chunk.length > buffer.length || !isWithin(chunk)) return finish("tooLarge");
      length += chunk.copy(buffer, length);
    };
    const onEnd = (): void => finish(length);
    const onGone = (): void => finish("gone");
    const onOver = (): void => finish("tooSlow");
    if (request.readableEnded) return onEnd();
    if (request.destroyed) return onGone();
    if (over.aborted) return onOver();
    over.addEventListener("abort", onOver);
    // An error is always followed by `close`; without a listener of its own it would end the process.
    request.on("error", () => undefined);
    request.on("data", onData).on("end", onEnd).on("close", onGone);
    request.resume();
  });
}
