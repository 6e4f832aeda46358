/** Sends JSON to an address of the user's configuration. */
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { getCACertificates } from "node:tls";
import type { Clock } from "@berth/runtime";

/** The result of a request. A `problem` is a sentence that names the origin of the address and no other part of it. */
export type PostResult =
  /** The server answered with 2xx. */
  | { readonly result: "accepted" }
  /** The server refuses this request; the same request fails again. */
  | { readonly result: "refused"; readonly problem: string }
  /** There was no answer, or the server asks for a later attempt (408, 425, 429, 5xx). */
  | { readonly result: "failed"; readonly problem: string; readonly retryAfterMs?: number };

export interface PostOptions {
  /** For the whole request, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** PEM file with authorities to trust besides the system's, read for each request. Default: none. */
  readonly caFile?: string | undefined;
}

/**
 * Sends one POST request with a JSON body. It follows no redirect, and reads at most 4 KiB of the answer's body. Never
 * rejects for what a server does or does not do.
 *
 * @throws TypeError when `url` is no URL.
 */
export type PostJson = (url: string, body: unknown, options: PostOptions) => Promise<PostResult>;

/** A short body is read, so that the server can send it. */
const MAX_BODY_BYTES = 4096;
/** A server cannot ask for a longer wait. Milliseconds. */
const MAX_RETRY_AFTER_MS = 3_600_000;
/** The statuses below 500 that ask for a later attempt (RFC 9110 §15.5.9, RFC 8470 §5.2, RFC 6585 §4). */
const LATER: ReadonlySet<number> = new Set([408, 425, 429]);

/** @param userAgent the name of the program. @param proxyFor the URL of the proxy for an address. Default: none. */
export function createPost(
  clock: Clock,
  userAgent: string,
  proxyFor: (url: URL) => string | undefined = () => undefined,
): PostJson {
  return async (url, body, { timeoutMs, signal, caFile }) => {
    const target = new URL(url);
    const { origin } = target;
    const proxy = proxyFor(target);
    const ca = caFile && (await readFile(caFile, "utf8").catch((error: NodeJS.ErrnoException) => error));
    if (ca instanceof Error)
      return { result: "failed", problem: `the authorities in ${caFile} cannot be read: ${ca.code}` };
    const late = new AbortController();
    using _timer = clock.schedule(timeoutMs, () => late.abort());
    try {
      const both = AbortSignal.any([late.signal, signal]);
      const answer = await send(target, JSON.stringify(body), { userAgent, proxy, ca, signal: both });
      await discard(answer);
      return resultOf(origin, answer, clock.now());
    } catch (error) {
      const why = late.signal.aborted ? `it took longer than ${timeoutMs} ms` : codeOf(error);
      const through = proxy === undefined ? "" : ` through the proxy ${new URL(proxy).host}`;
      return { result: "failed", problem: `${origin} does not answer${through}: ${why}` };
    }
  };
}

interface Sending extends Pick<PostOptions, "signal"> {
  readonly userAgent: string;
  readonly proxy: string | undefined;
  /** PEM, or empty. */
  readonly ca: string | undefined;
}

/** On a connection of its own: messages are seldom. */
function send(url: URL, body: string, { userAgent, proxy, ca, signal }: Sending): Promise<IncomingMessage> {
  const through = proxy !== undefined && { proxyEnv: { http_proxy: proxy, https_proxy: proxy } };
  const trusted = ca && { ca: [...getCACertificates("default"), ca] };
  const headers = { "content-type": "application/json", "user-agent": userAgent };
  const common = { method: "POST", headers, signal };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  // An import of it would load Node's own undici: see `startProbeServers`.
  const http = process.getBuiltinModule("node:http");
  const sent =
    url.protocol === "https:"
      ? request(url, { ...common, agent: new Agent({ ...through, ...trusted }) }, resolve)
      : http.request(url, { ...common, agent: new http.Agent({ ...through }) }, resolve);
  sent.on("error", reject).end(body);
  return promise;
}

/** The status says everything, so an error in the body changes nothing. */
async function discard(answer: IncomingMessage): Promise<void> {
  let left = MAX_BODY_BYTES;
  try {
    for await (const chunk of answer) {
      left -= (chunk as Buffer).length;
      if (left < 0) break;
    }
  } catch {}
}

function resultOf(
  origin: string,
  { statusCode: status = 0, headers }: IncomingMessage,
  now: number,
): PostResult {
  if (status >= 200 && status < 300) return { result: "accepted" };
  if (status === 407)
    return {
      result: "failed",
      problem: `${origin} does not answer: the proxy wants a login, or another one`,
    };
  const problem = `${origin} answers with status ${status}`;
  if (status < 500 && !LATER.has(status)) return { result: "refused", problem };
  const retryAfterMs = toRetryAfterMs(headers["retry-after"], now);
  return { result: "failed", problem, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

/** Seconds or a date (RFC 9110 §10.2.3). */
function toRetryAfterMs(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return waitMs > 0 ? Math.min(waitMs, MAX_RETRY_AFTER_MS) : undefined;
}

/** A code such as `ECONNREFUSED`. The message of the error may contain the whole address. */
function codeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : "the HTTP exchange failed";
}
