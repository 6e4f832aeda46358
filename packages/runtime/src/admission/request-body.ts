import type { IncomingMessage } from "node:http";
import type { Clock } from "../clock.ts";
import { createJsonMeter } from "./json-meter.ts";
import { createRoom } from "./room.ts";

/** The largest body, and the time to receive it. */
export interface BodyLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** A body, until disposed of; or why it is missing: `gone` means that the client disconnected. */
export type ReceivedBody = Disposable &
  (
    | { readonly kind: "complete"; readonly bytes: Uint8Array; readonly isSmall: boolean }
    | { readonly kind: "tooLarge" | "tooMany" | "tooSlow" | "gone" }
  );

/**
 * Reads a body of a peer; `undefined` is a trusted peer that may use all free room. Never rejects. It stops reading a
 * body that it refuses.
 */
export type BodyReader = (request: IncomingMessage, peer: string | undefined) => Promise<ReceivedBody>;

/** Bodies up to this size have separate room. Almost all pods and nodes need a tenth of it. */
const SMALL_BYTES = 64 * 1024;
const SMALL_ROOM = 8 * 1024 * 1024;
/** Room for this many of the largest. A greedy peer gets half, and a review of two 1.5 MiB objects fits. */
const LARGE_BODIES = 3;

/**
 * Creates a reader. It reserves room for the announced length of a body before it reads any of it. The wait for room
 * counts towards `timeoutMs`.
 */
export function createBodyReader({ maxBytes, timeoutMs, clock }: BodyLimits): BodyReader {
  const [small, large] = [createRoom(SMALL_ROOM), createRoom(LARGE_BODIES * maxBytes)];
  return async (request, peer) => {
    // Without a length the body may become as large as allowed.
    const length = Number(request.headers["content-length"] ?? maxBytes);
    if (length > maxBytes) return without("tooLarge");
    const over = new AbortController();
    using _timer = clock.schedule(timeoutMs, () => over.abort());
    const isSmall = length <= SMALL_BYTES;
    const place = await (isSmall ? small : large).wait(length, peer, over.signal);
    if (place === undefined) return without("tooMany");
    const buffer = Buffer.allocUnsafeSlow(length);
    const release = (): void => {
      // Frees the memory now: the garbage collector would let many bodies pile up.
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

/** Reads to the end and returns the length; stops when it is too large, late, or the client disconnects. */
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
    // `close` always follows an error. An error event without a listener would end the process.
    request.on("error", () => undefined);
    request.on("data", onData).on("end", onEnd).on("close", onGone);
    request.resume();
  });
}
