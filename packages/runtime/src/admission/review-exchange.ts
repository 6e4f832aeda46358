/** From the body of a request to the answer of its handler, in HTTP. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Clock, sleep } from "../clock.ts";
import type { Reply } from "../http-listener.ts";
import type { LogFields, Logger } from "../log.ts";
import type { AdmissionMetrics } from "./admission-metrics.ts";
import type { BodyReader } from "./request-body.ts";
import {
  type AdmissionAnswer,
  type AdmissionRequest,
  ALLOWED,
  parseReview,
  type Review,
  renderReview,
} from "./review.ts";

/** What a handler receives besides the request. */
export interface AdmissionContext {
  /** Aborts when the answer is no longer needed: it was sent, is too late, or the API server disconnected. */
  readonly signal: AbortSignal;
  /** The address of the client. Absent: an API server that has shown its certificate. */
  readonly peer?: string | undefined;
}

/**
 * Decides about one request. Throwing, or taking longer than the API server waits, becomes a 500, so that the
 * `failurePolicy` of the webhook decides. Errors are logged, so they should contain no object data. The same request
 * can come more than once, and while another one is being decided.
 */
export type AdmissionHandler = (
  request: AdmissionRequest,
  context: AdmissionContext,
) => AdmissionAnswer | Promise<AdmissionAnswer>;

/** A request to the path of a handler. */
export interface Exchange {
  readonly path: string;
  readonly handler: AdmissionHandler;
  /** The query parameter `timeout`, as the API server sends it: `5s`. */
  readonly timeout: string | undefined;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** An exchange whose client is known. */
interface Asked extends Exchange {
  readonly peer: string | undefined;
}

/** Dependencies of every exchange. */
export interface ExchangeTools {
  readonly readBody: BodyReader;
  /** The peer that a request counts for; `undefined` for an API server with a verified certificate. */
  readonly peerOf: (request: IncomingMessage) => string | undefined;
  readonly turn: (peer: string | undefined) => Promise<Disposable>;
  readonly clock: Clock;
  readonly metrics: AdmissionMetrics;
  readonly log: Logger;
  /** Called for refusals that any client can cause at any rate. */
  readonly refused: (fields: LogFields) => void;
}

/** The default and the maximum of a webhook's `timeoutSeconds`. */
const [DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS] = [10_000, 30_000];

/** For a client that sends its body too slowly. */
export const TOO_SLOW: Reply = { status: 408, body: "request body not received in time\n" };
const REFUSALS: Readonly<Record<"tooLarge" | "tooMany" | "tooSlow", Reply>> = {
  tooLarge: { status: 413, body: "request body too large\n" },
  tooMany: { status: 503, body: "too many requests at once\n" },
  tooSlow: TOO_SLOW,
};
const FAILED: Reply = { status: 500, body: "internal error\n" };

/** Answers a POST; `undefined` when its client has disconnected. Never rejects. */
export async function exchangeReview(exchange: Exchange, tools: ExchangeTools): Promise<Reply | undefined> {
  const { path, request } = exchange;
  if (!isJson(request)) return { status: 415, body: "only application/json\n" };
  const peer = tools.peerOf(request);
  using body = await tools.readBody(request, peer);
  if (body.kind === "gone") return undefined;
  if (body.kind !== "complete") {
    tools.refused({ path, problem: body.kind });
    return REFUSALS[body.kind];
  }
  let turn = await tools.turn(peer);
  const parsed = parseReview(body.bytes);
  // A body that was slow to parse may be slow to decide, so decide in another round of the event loop.
  if (!body.isSmall) {
    turn[Symbol.dispose]();
    turn = await tools.turn(peer);
  }
  // The turn includes the handler up to its first wait.
  const decided = "review" in parsed ? decide(parsed.review, { ...exchange, peer }, tools) : undefined;
  turn[Symbol.dispose]();
  if ("review" in parsed) return await decided;
  tools.refused({ path, problem: parsed.problem });
  return { status: 400, body: "not an AdmissionReview\n" };
}

/** A missing content type counts as JSON, because clients send nothing else here. */
function isJson({ headers }: IncomingMessage): boolean {
  const type = headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase() ?? "application/json";
  return type === "application/json" && (headers["content-encoding"] ?? "identity") === "identity";
}

async function decide(review: Review, exchange: Asked, tools: ExchangeTools): Promise<Reply | undefined> {
  const { path } = exchange;
  const { log, metrics } = tools;
  const verdict: Verdict =
    review.request === undefined
      ? { kind: "answered", answer: ALLOWED }
      : await ask(review.request, exchange, tools.clock);
  // Cut to the length of a uid, because the client controls it.
  const fields = { path, uid: review.request?.uid.slice(0, 64) };
  switch (verdict.kind) {
    case "gone":
      return undefined;
    case "late":
      log.error("an admission handler took too long", { ...fields, afterMs: verdict.afterMs });
      return FAILED;
    case "failed":
      log.error("an admission handler failed", { ...fields, error: verdict.error });
      return FAILED;
    case "answered":
      break;
  }
  try {
    const body = renderReview(review, verdict.answer);
    metrics.decided(path, decisionOf(verdict.answer));
    return { status: 200, body, contentType: "application/json" };
  } catch (error) {
    log.error("the answer of an admission handler is not JSON", { ...fields, error });
    return FAILED;
  }
}

function decisionOf({ allowed, patch = [] }: AdmissionAnswer): "allowed" | "patched" | "denied" {
  if (!allowed) return "denied";
  return patch.length > 0 ? "patched" : "allowed";
}

type Verdict =
  | { readonly kind: "answered"; readonly answer: AdmissionAnswer }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "late"; readonly afterMs: number }
  | { readonly kind: "gone" };

async function ask(
  request: AdmissionRequest,
  { handler, timeout, response, peer }: Asked,
  clock: Clock,
): Promise<Verdict> {
  if (response.destroyed) return { kind: "gone" };
  const afterMs = toTimeoutMs(timeout);
  const over = new AbortController();
  const gone = (): void => over.abort();
  response.once("close", gone);
  // It settles even after the answer is no longer awaited, so that a late error is still handled.
  const asked = async (): Promise<Verdict> => {
    try {
      return { kind: "answered", answer: await handler(request, { signal: over.signal, peer }) };
    } catch (error) {
      return { kind: "failed", error };
    }
  };
  const given = sleep(clock, afterMs, over.signal).then(
    (passed): Verdict => (passed ? { kind: "late", afterMs } : { kind: "gone" }),
  );
  try {
    return await Promise.race([asked(), given]);
  } finally {
    response.off("close", gone);
    over.abort("answered"); // To make an AbortError would cost more than the answer.
  }
}

/** A duration as Go prints whole seconds: `5s`, `1m0s`. */
function toTimeoutMs(text: string | undefined): number {
  const [, minutes = "0", seconds] = /^(?:(\d{1,3})m)?(\d{1,3})s$/.exec(text ?? "") ?? [];
  if (seconds === undefined) return DEFAULT_TIMEOUT_MS;
  return Math.min((Number(minutes) * 60 + Number(seconds)) * 1000, MAX_TIMEOUT_MS);
}
