import { performance } from "node:perf_hooks";
import type { Projection, WatchEvent, WatchStream } from "./client.ts";
import type { Deadline } from "./deadline.ts";
import { ApiError, type RequestInfo } from "./failure.ts";
import type { KubeObject } from "./object.ts";
import { fromStatusObject } from "./status.ts";
import { type OpenedStream, reasonOf } from "./transport.ts";
import { type EventSplitter, MAX_EVENT_BYTES } from "./watch-splitters.ts";

/** Marks the bookmark that ends the initial events of a WatchList (KEP-3157). */
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

/** A watch that the server has not ended by its time has so much longer. Milliseconds. */
const LATE_END_MS = 60_000;
/** The longest that `setTimeout` waits: 24 days. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What the server sent: without either it is no event. */
type RawEvent = { readonly type?: string; readonly object?: unknown } | null;

/**
 * The answer to a watch as events. Nothing is read ahead of the consumer except the socket's buffer.
 *
 * A reset loses data that has arrived but was not read: an undici body destroyed with an error yields nothing more,
 * over HTTP/1.1 and HTTP/2. A consumer that must not miss events watches again from the version of the last event it
 * received.
 */
export class EventStream<T extends KubeObject> implements WatchStream<T> {
  readonly #stream: Pick<OpenedStream, "body" | "deadline">;
  readonly #info: RequestInfo;
  readonly #splitter: EventSplitter;
  readonly #parse: (bytes: Buffer) => RawEvent;
  readonly #project: Projection<T> | undefined;
  #lastByteAt = performance.now();

  /** @param parse throws for bytes that are no event. */
  constructor(
    stream: Pick<OpenedStream, "body" | "deadline">,
    info: RequestInfo,
    splitter: EventSplitter,
    parse: (bytes: Buffer) => RawEvent,
    project?: Projection<T>,
  ) {
    this.#stream = stream;
    this.#info = info;
    this.#splitter = splitter;
    this.#parse = parse;
    this.#project = project;
  }

  get lastByteAt(): number {
    return this.#lastByteAt;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent<T>, void, void> {
    const deadline: Deadline = this.#stream.deadline;
    try {
      for await (const chunk of this.#stream.body) {
        this.#lastByteAt = performance.now();
        for (const bytes of this.#splitter.split(chunk as Buffer)) yield this.#decode(bytes);
        if (this.#splitter.pending > MAX_EVENT_BYTES)
          throw this.#undecodable(`an event is longer than ${MAX_EVENT_BYTES} bytes`);
      }
      if (this.#splitter.pending > 0) throw this.#undecodable("the stream ended inside an event");
    } catch (cause) {
      if (cause instanceof ApiError) throw cause;
      if (deadline.passed) {
        const message = "the server did not end the watch in time";
        throw new ApiError({ kind: "unreachable" }, this.#info, { message });
      }
      if (deadline.signal.aborted) throw new ApiError({ kind: "aborted" }, this.#info);
      throw new ApiError({ kind: "unreachable" }, this.#info, { message: reasonOf(cause), cause });
    } finally {
      deadline.abort();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stream.deadline.abort();
    // Without a listener, an unread body would report its abort as an unhandled error.
    this.#stream.body.on("error", () => undefined).destroy();
    return Promise.resolve();
  }

  #decode(bytes: Buffer): WatchEvent<T> {
    let event: RawEvent;
    try {
      event = this.#parse(bytes);
    } catch {
      // Omit the parser's error: it quotes the event, which may be a Secret.
      throw this.#undecodable("an event cannot be decoded");
    }
    const { type, object } = event ?? {};
    if (typeof object !== "object" || object === null) throw this.#undecodable("an event carries no object");
    if (type === undefined) throw this.#undecodable("an event has no type");
    switch (type) {
      case "ADDED":
      case "MODIFIED":
      case "DELETED":
        return { type, object: this.#project === undefined ? (object as T) : this.#project(object as T) };
      case "BOOKMARK": {
        const { metadata } = object as KubeObject;
        const resourceVersion = metadata?.resourceVersion;
        if (resourceVersion === undefined) throw this.#undecodable("a bookmark carries no resourceVersion");
        return {
          type,
          resourceVersion,
          initialEventsEnd: metadata?.annotations?.[INITIAL_EVENTS_END] === "true",
        };
      }
      case "ERROR":
        throw fromStatusObject(object, this.#info);
      default:
        throw this.#undecodable(`an event has the unknown type ${JSON.stringify(type)}`);
    }
  }

  #undecodable(message: string): ApiError {
    return new ApiError({ kind: "undecodable" }, this.#info, { message });
  }
}

/** Until the client ends a watch itself. @param timeoutSeconds 0: the server ends the watch when it likes. */
export function latestEndMs(timeoutSeconds: number): number {
  return timeoutSeconds > 0 ? Math.min(timeoutSeconds * 1_000 + LATE_END_MS, MAX_TIMER_MS) : MAX_TIMER_MS;
}

/** An event in JSON. @throws SyntaxError */
export function parseEvent(line: Buffer): RawEvent {
  return JSON.parse(line.toString("utf8")) as RawEvent;
}
