import type { IncomingMessage, ServerResponse } from "node:http";
import { type Reply, writeReplyHead } from "../http-listener.ts";
import { OTHER_PATH } from "./admission-metrics.ts";
import { type AdmissionHandler, type ExchangeTools, exchangeReview, TOO_SLOW } from "./review-exchange.ts";

/** What is served. */
export interface ResponderOptions extends ExchangeTools {
  readonly handlers: ReadonlyMap<string, AdmissionHandler>;
  readonly ready: () => boolean;
}

/** Answers every request, with a status at least. */
export interface Responder {
  /** Requests that are being answered. */
  readonly inFlight: number;
  /** Never rejects. `isLast`, asked when the answer is known: whether its connection is to be closed after it. */
  answer(request: IncomingMessage, response: ServerResponse, isLast: () => boolean): Promise<void>;
}

/** The paths that are served beside those of handlers. */
export const PROBE_PATHS: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

const OK: Reply = { status: 200, body: "ok" };
const READY: Reply = { status: 200, body: "ready" };
const NOT_READY: Reply = { status: 503, body: "not ready" };
const NOT_FOUND: Reply = { status: 404, body: "not found\n" };
const ONLY_GET: Reply = { status: 405, body: "only GET and HEAD\n", allow: "GET, HEAD" };
const ONLY_POST: Reply = { status: 405, body: "only POST\n", allow: "POST" };
const FAILED: Reply = { status: 500, body: "internal error\n" };

/** Creates a responder; it holds nothing but a count. */
export function createResponder(options: ResponderOptions): Responder {
  const { handlers, bodies, clock, metrics, log } = options;
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
    // The whole answer goes out at once; the connection only stays open for what the client is still sending.
    response.write(reply.body);
    await bodies.discard(request);
    response.end();
  };

  return {
    get inFlight() {
      return inFlight;
    },
    async answer(request, response, isLast) {
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
      }
    },
  };
}
