import { performance } from "node:perf_hooks";
import type { Projection, WatchEvent, WatchStream } from "./client.ts";
import type { Deadline } from "./deadline.ts";
import { ApiError, type RequestInfo } from "./failure.ts";
import type { KubeObject } from "./object.ts";
import { fromStatusObject } from "./status.ts";
import { type OpenedStream, reasonOf } from "./transport.ts";

/** etcd refuses objects over 1.5 MB by default; a line longer than this is no watch event. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;
const NEWLINE = 0x0a;
/** Marks the bookmark that ends the initial events of a WatchList (KEP-3157). */
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

/**
 * The lines of a watch as events. Nothing is read ahead of the consumer except the socket's buffer.
 *
 * A reset loses data that has arrived but was not read: an undici body destroyed with an error yields nothing more,
 * over HTTP/1.1 and HTTP/2. A consumer that must not miss events watches again from the version of the last event it
 * received.
 */
export class LineWatchStream<T extends KubeObject> implements WatchStream<T> {
  readonly #stream: OpenedStream;
  readonly #info: RequestInfo;
  readonly #project: Projection<T> | undefined;
  #lastByteAt = performance.now();

  constructor(stream: OpenedStream, info: RequestInfo, project: Projection<T> | undefined) {
    this.#stream = stream;
    this.#info = info;
    this.#project = project;
  }

  get lastByteAt(): number {
    return this.#lastByteAt;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent<T>, void, void> {
    const deadline: Deadline = this.#stream.deadline;
    try {
      let rest: Buffer[] = [];
      let restBytes = 0;
      for await (const piece of this.#stream.body) {
        const chunk = piece as Buffer;
        this.#lastByteAt = performance.now();
        let start = 0;
        for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
          const line =
            rest.length === 0
              ? chunk.subarray(start, end)
              : Buffer.concat([...rest, chunk.subarray(start, end)]);
          rest = [];
          restBytes = 0;
          start = end + 1;
          if (line.length > 0) yield this.#decode(line);
        }
        if (start < chunk.length) {
          rest.push(chunk.subarray(start));
          restBytes += chunk.length - start;
          if (restBytes > MAX_LINE_BYTES)
            throw this.#undecodable(`an event is longer than ${MAX_LINE_BYTES} bytes`);
        }
      }
      if (restBytes > 0) throw this.#undecodable("the stream ended inside an event");
    } catch (cause) {
      if (cause instanceof ApiError) throw cause;
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

  #decode(line: Buffer): WatchEvent<T> {
    let event: { type?: string; object?: T } | null;
    try {
      event = JSON.parse(line.toString("utf8")) as typeof event;
    } catch {
      // Omit the parser's error: it quotes the line, which may be a Secret.
      throw this.#undecodable("an event is not JSON");
    }
    const { type, object } = event ?? {};
    if (typeof object !== "object" || object === null) throw this.#undecodable("an event carries no object");
    if (type === undefined) throw this.#undecodable("an event has no type");
    switch (type) {
      case "ADDED":
      case "MODIFIED":
      case "DELETED":
        return { type, object: this.#project === undefined ? object : this.#project(object) };
      case "BOOKMARK": {
        const resourceVersion = object.metadata?.resourceVersion;
        if (resourceVersion === undefined) throw this.#undecodable("a bookmark carries no resourceVersion");
        return {
          type,
          resourceVersion,
          initialEventsEnd: object.metadata?.annotations?.[INITIAL_EVENTS_END] === "true",
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
