import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { Readable } from "node:stream";

export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What the HTTP/1.1 and HTTP/2 responses of Node have in common, as far as it is used here. */
interface Response {
  writeHead(status: number, headers: Record<string, string | string[]>): unknown;
  /** HTTP/2 sends its head with `writeHead` already. */
  flushHeaders?(): void;
  write(chunk: Uint8Array, written: (error?: Error | null) => void): boolean;
  end(body: string): unknown;
}

/** Headers that are about one connection and not about the message (RFC 9110, 7.6.1). */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** The headers that may go on to the next connection: neither hop-by-hop ones nor HTTP/2 pseudo-headers. */
export function forwardableHeaders(headers: HeaderValues): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || name.startsWith(":") || CONNECTION_HEADERS.has(name)) continue;
    kept[name] = typeof value === "string" ? value : [...value];
  }
  return kept;
}

/** The client's end of one request, the same for HTTP/1.1 and HTTP/2. */
export class ClientSide {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: HeaderValues;
  readonly body: Readable;
  readonly hasBody: boolean;
  /** Aborts when the client has its answer or is gone: nothing more can be sent. */
  readonly gone: AbortSignal;
  readonly #response: Response;
  readonly #resetStream: () => void;
  readonly #resetConnection: () => void;

  /** @param resetConnection sends RST on the TCP connection under the request. */
  constructor(
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
    resetConnection: () => void,
  ) {
    this.method = request.method ?? "GET";
    this.path = request.url ?? "/";
    this.headers = request.headers;
    this.body = request;
    this.#response = response;
    this.#resetConnection = resetConnection;
    if (request instanceof Http2ServerRequest) {
      const { stream } = request;
      this.hasBody = !stream.endAfterHeaders;
      this.#resetStream = () => stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    } else {
      this.hasBody =
        request.headers["transfer-encoding"] !== undefined ||
        Number(request.headers["content-length"] ?? 0) > 0;
      this.#resetStream = resetConnection;
    }
    const gone = new AbortController();
    this.gone = gone.signal;
    response.once("close", () => gone.abort());
    // Both are followed by `close`, which is what counts.
    response.on("error", () => {});
    request.on("error", () => {});
  }

  /** Sends the head at once, before there is a body: a watch counts as open when its head has come. */
  begin(status: number, headers: HeaderValues): void {
    if (this.gone.aborted) return;
    this.#response.writeHead(status, forwardableHeaders(headers));
    this.#response.flushHeaders?.();
  }

  /** Resolves when the bytes have left the process, or the client is gone. */
  write(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      if (this.gone.aborted || bytes.length === 0) return resolve();
      const done = (): void => {
        this.gone.removeEventListener("abort", done);
        resolve();
      };
      this.gone.addEventListener("abort", done);
      this.#response.write(bytes, done);
    });
  }

  end(body = ""): void {
    if (!this.gone.aborted) this.#response.end(body);
  }

  cut(scope: "stream" | "connection"): void {
    if (scope === "stream") this.#resetStream();
    else this.#resetConnection();
  }
}
