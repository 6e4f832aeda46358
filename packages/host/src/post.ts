/** Sends JSON to an address of the user's configuration. */
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
}

/**
 * Sends one POST request with a JSON body. It follows no redirect, and reads at most 4 KiB of the answer's body. Never
 * rejects for what a server does or does not do.
 *
 * @throws TypeError when `url` is no URL.
 */
export type PostJson = (url: string, body: unknown, options: PostOptions) => Promise<PostResult>;

/** A short body is read, so that the connection can serve the next request. */
const MAX_BODY_BYTES = 4096;
/** A server cannot ask for a longer wait. Milliseconds. */
const MAX_RETRY_AFTER_MS = 3_600_000;
/** The statuses below 500 that ask for a later attempt (RFC 9110 §15.5.9, RFC 8470 §5.2, RFC 6585 §4). */
const LATER: ReadonlySet<number> = new Set([408, 425, 429]);

/** @param userAgent the name of the program. */
export function createPost(clock: Clock, userAgent: string): PostJson {
  return async (url, body, { timeoutMs, signal }) => {
    const { origin } = new URL(url);
    const late = new AbortController();
    using _timer = clock.schedule(timeoutMs, () => late.abort());
    try {
      const answer = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", "user-agent": userAgent },
        body: JSON.stringify(body),
        redirect: "manual",
        signal: AbortSignal.any([late.signal, signal]),
      });
      await discard(answer);
      return resultOf(origin, answer, clock.now());
    } catch (error) {
      const why = late.signal.aborted ? `it took longer than ${timeoutMs} ms` : codeOf(error);
      return { result: "failed", problem: `${origin} does not answer: ${why}` };
    }
  };
}

/** The status says everything, so an error in the body changes nothing. */
async function discard({ body }: Response): Promise<void> {
  let left = MAX_BODY_BYTES;
  try {
    for await (const chunk of body ?? []) {
      left -= chunk.length;
      if (left < 0) break;
    }
  } catch {}
}

function resultOf(origin: string, { ok, status, headers }: Response, now: number): PostResult {
  if (ok) return { result: "accepted" };
  const problem = `${origin} answers with status ${status}`;
  if (status < 500 && !LATER.has(status)) return { result: "refused", problem };
  const retryAfterMs = toRetryAfterMs(headers.get("retry-after"), now);
  return { result: "failed", problem, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

/** Seconds or a date (RFC 9110 §10.2.3). */
function toRetryAfterMs(text: string | null, now: number): number | undefined {
  if (text === null) return undefined;
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return waitMs > 0 ? Math.min(waitMs, MAX_RETRY_AFTER_MS) : undefined;
}

/** A code such as `ECONNREFUSED`. The message of the error may contain the whole address. */
function codeOf(error: unknown): string {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } };
  return typeof cause?.code === "string" ? cause.code : "the HTTP exchange failed";
}
