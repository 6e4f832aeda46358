import type { IncomingMessage } from "node:http";
import type { Clock } from "../clock.ts";

/** How much of a body is taken, and for how long it is waited for. */
export interface BodyLimits {
  readonly maxBytes: number;
  /** Of all bodies that are held at the same time. */
  readonly maxHeldBytes: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** A body, until disposed of; or why there is none: `gone` is a client that left. */
export type ReceivedBody = Disposable &
  (
    | { readonly kind: "complete"; readonly bytes: Uint8Array }
    | { readonly kind: "tooLarge" | "tooMany" | "tooSlow" | "gone" }
  );

/** Reads bodies within limits. */
export interface BodyReader {
  /** Never rejects. Of a body that is refused, no more is read. */
  receive(request: IncomingMessage): Promise<ReceivedBody>;
  /**
   * Throws away what is left of a request, at most `maxBytes` and for `timeoutMs`: a client that is still writing when
   * the connection closes may never see the answer that it was sent.
   */
  discard(request: IncomingMessage): Promise<void>;
}

/** Creates a reader whose bodies together keep to `maxHeldBytes`. */
export function createBodyReader({ maxBytes, maxHeldBytes, timeoutMs, clock }: BodyLimits): BodyReader {
  let heldBytes = 0;
  return {
    async receive(request) {
      const chunks: Uint8Array[] = [];
      let bytes = 0;
      const take = (chunk: Uint8Array): "tooLarge" | "tooMany" | undefined => {
        if (bytes + chunk.length > maxBytes) return "tooLarge";
        if (heldBytes + chunk.length > maxHeldBytes) return "tooMany";
        bytes += chunk.length;
        heldBytes += chunk.length;
        chunks.push(chunk);
        return undefined;
      };
      const announced = Number(request.headers["content-length"] ?? 0);
      const end = announced > maxBytes ? "tooLarge" : await readChunks(request, take, timeoutMs, clock);
      if (end !== "complete") {
        heldBytes -= bytes;
        return { kind: end, [Symbol.dispose]: () => undefined };
      }
      const release = (): void => {
        heldBytes -= bytes;
        bytes = 0;
      };
      return { kind: end, bytes: Buffer.concat(chunks, bytes), [Symbol.dispose]: release };
    },
    async discard(request) {
      let bytes = 0;
      const take = (chunk: Uint8Array): "tooLarge" | undefined => {
        bytes += chunk.length;
        return bytes > maxBytes ? "tooLarge" : undefined;
      };
      await readChunks(request, take, timeoutMs, clock);
    },
  };
}

/** Hands over chunks until the request ends, `take` refuses one, time is up or the client goes. Leaves it paused. */
function readChunks<Refusal extends string>(
  request: IncomingMessage,
  take: (chunk: Uint8Array) => Refusal | undefined,
  timeoutMs: number,
  clock: Clock,
): Promise<Refusal | "complete" | "tooSlow" | "gone"> {
  return new Promise((resolve) => {
    if (request.readableEnded) return resolve("complete");
    if (request.destroyed) return resolve("gone");
    const finish = (end: Refusal | "complete" | "tooSlow" | "gone"): void => {
      timer[Symbol.dispose]();
      request.off("data", onData).off("end", onEnd).off("close", onGone);
      request.pause();
      resolve(end);
    };
    const onData = (chunk: Uint8Array): void => {
      const refusal = take(chunk);
      if (refusal !== undefined) finish(refusal);
    };
    const onEnd = (): void => finish("complete");
    const onGone = (): void => finish("gone");
    const timer = clock.schedule(timeoutMs, () => finish("tooSlow"));
    // An error is always followed by `close`; without a listener of its own it would end the process.
    request.on("error", () => undefined);
    request.on("data", onData).on("end", onEnd).on("close", onGone);
    request.resume();
  });
}
