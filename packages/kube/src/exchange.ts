import type { Dispatcher } from "undici";
import { type BodyReader, wholeBody } from "./body-reader.ts";
import { MAX_ERROR_BYTES } from "./status.ts";

/** No real answer is longer, unless a server ignores `limit`. Longer ones are cut to protect the memory. */
const MAX_BODY_BYTES = 400 * 1024 * 1024;

/** A server's refusal as it arrived. */
export interface Refusal {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** The answer has more bytes than any memory should hold. */
export class TooLong extends Error {
  constructor(mostBytes: number) {
    super(`the answer is longer than ${mostBytes} bytes`);
  }
}

/**
 * Sends a request and gives the body of a success to `reader` as it arrives. `Dispatcher.request` makes a stream of each
 * answer, and that costs more than all else about a small one (measured: 230 against 150 µs of CPU a PATCH).
 *
 * @returns once the answer is complete: nothing for a success, or the refusal.
 * @throws as undici does, or the reason of `signal`. A success of which `reader` has enough does not fail any more.
 */
export function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  signal: AbortSignal,
  reader: BodyReader,
  mostBytes: number = MAX_BODY_BYTES,
  onHeaders?: (headers: Refusal["headers"]) => void,
): Promise<Refusal | undefined> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let head: Omit<Refusal, "body"> | undefined;
    let into = reader;
    let size = 0;
    const succeed = (): void => {
      signal.removeEventListener("abort", onAbort);
      resolve(head && { ...head, body: into.end() });
    };
    const fail = (error: unknown): void => {
      // The status alone classifies a refusal.
      if (head !== undefined || into.isEnough === true) return succeed();
      signal.removeEventListener("abort", onAbort);
      reject(error);
    };
    // undici would notice it only once the request has a connection.
    const onAbort = (): void => {
      fail(signal.reason);
      controller?.abort(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    dispatcher.dispatch(request, {
      onRequestStart(started) {
        if (signal.aborted) started.abort(signal.reason);
        else controller = started;
      },
      onResponseStart(_, statusCode, headers) {
        onHeaders?.(headers);
        if (statusCode < 300) return;
        head = { statusCode, headers };
        into = wholeBody();
      },
      onResponseData(started, chunk) {
        const most = head === undefined ? mostBytes : MAX_ERROR_BYTES;
        size += chunk.length;
        if (size > most) started.abort(new TooLong(most));
        else into.add(chunk);
      },
      onResponseEnd: succeed,
      onResponseError: (_, error) => fail(error),
    });
  });
}
