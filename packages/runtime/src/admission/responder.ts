import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { sleep } from "../clock.ts";
import { type Reply, writeReplyHead } from "../http-listener.ts";
import { OTHER_PATH } from "./admission-metrics.ts";
import { type AdmissionHandler, type ExchangeTools, exchangeReview, TOO_SLOW } from "./review-exchange.ts";

/** The handlers and probes. */
export interface ResponderOptions extends ExchangeTools {
  readonly handlers: ReadonlyMap<string, AdmissionHandler>;
  readonly ready: () => boolean;
}

/** Answers every request, at least with a status. */
export interface Responder {
  /** Requests that are being answered. */
  readonly inFlight: number;
  /** Never rejects. `isLast` is called with the answer known: whether to close the connection after it. */
  answer(request: IncomingMessage, response: ServerResponse, isLast: () => boolean): Promise<void>;
}

/** The paths that are served besides those of handlers. */
export const PROBE_PATHS: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

const OK: Reply = { status: 200, body: "ok" };
const READY: Reply = { status: 200, body: "ready" };
const NOT_READY: Reply = { status: 503, body: "not ready" };
const NOT_FOUND: Reply = { status: 404, body: "not found\n" };
const ONLY_GET: Reply = { status: 405, body: "only GET and HEAD\n", allow: "GET, HEAD" };
const ONLY_POST: Reply = { status: 405, body: "only POST\n", allow: "POST" };
const FAILED: Reply = { status: 500, body: "internal error\n" };

/**
 * How long a connection stays open for an answer that comes before the end of a request, ms. The server reads no more
 * of it. If it closed the connection at once, a client that is still writing might miss the answer.
 */
const LINGER_MS = 500;

/** Creates a responder. It holds only a count and the connections being served. */
export function createResponder(options: ResponderOptions): Responder {
  const { handlers, clock, metrics, log } = options;
  const served = new WeakSet<Socket>();
  let inFlight = 0;

  const replyTo = async (
    request: IncomingMessage,
    response: ServerResponse,
    url: URL | null,
  ): Promise<Reply | undefined> => {
    const path = url?.pathname ?? "";
    if (PROBE_PATHS.has(path)) {
      if (request.method !== "GET" && request.method !== "HEAD") return ONLY_GET;
      if (path === "/healthz") return OK;
      return options.ready() ? READY : NOT_READY;
    }
    const handler = handlers.get(path);
    if (handler === undefined) return NOT_FOUND;
    if (request.method !== "POST") return ONLY_POST;
    const timeout = url?.searchParams.get("timeout") ?? undefined;
    return exchangeReview({ path, handler, timeout, request, response }, options);
  };

  const send = async (
    request: IncomingMessage,
    response: ServerResponse,
    reply: Reply,
    last: boolean,
  ): Promise<void> => {
    const received = request.complete;
    writeReplyHead(response, reply, last || !received);
    if (received || reply === TOO_SLOW) return void response.end(reply.body);
    response.write(reply.body);
    await sleep(clock, LINGER_MS);
    response.destroy();
  };

  return {
    get inFlight() {
      return inFlight;
    },
    async answer(request, response, isLast) {
      const { socket } = request;
      // The API server never pipelines. Pipelined requests would escape the bound on connections.
      if (served.has(socket)) {
        socket.destroy();
        return;
      }
      served.add(socket);
      inFlight += 1;
      const startedAtMs = clock.monotonic();
      const url = URL.parse(request.url ?? "/", "https://admission");
      const path =
        url !== null && (handlers.has(url.pathname) || PROBE_PATHS.has(url.pathname))
          ? url.pathname
          : OTHER_PATH;
      try {
        const reply = await replyTo(request, response, url).catch((error: unknown) => {
          log.error("an admission request could not be answered", { path, error });
          return FAILED;
        });
        metrics.answered(path, reply?.status.toString() ?? "aborted", clock.monotonic() - startedAtMs);
        if (reply !== undefined) await send(request, response, reply, isLast());
      } finally {
        inFlight -= 1;
        served.delete(socket);
      }
    },
  };
}
