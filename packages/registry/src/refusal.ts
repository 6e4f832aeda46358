/** Converts an error status of a registry or its token service to a failure. */
import { ExchangeError } from "./exchange-error.ts";
import type { RegistryFailureKind } from "./failure.ts";
import type { Answer } from "./transport.ts";

/** Longer than any rate limit window: the Docker Hub counts pulls of six hours. */
const MAX_RETRY_AFTER_MS = 6 * 60 * 60 * 1000;

/** September 2001, or 31 years: a larger number is a point in time. */
const EARLIEST_MOMENT_S = 1_000_000_000;

const PHRASES: ReadonlyMap<RegistryFailureKind, string> = new Map([
  ["unauthorized", "does not let it be read"],
  ["forbidden", "forbids to read it"],
  ["notFound", "does not have it"],
  ["rateLimited", "takes no more requests for now"],
  ["unreachable", "did not get the request in time"],
  ["serverError", "has a fault of its own"],
]);

/**
 * @param host `registry-1.docker.io`, `its token service auth.docker.io`.
 * @param now epoch, ms.
 */
export function refusal(
  answer: Answer,
  host: string,
  now: number,
  kind: RegistryFailureKind = kindOf(answer.status),
): ExchangeError {
  const { status } = answer;
  const retryAfterMs = parseRetryAfter(answer.headers["retry-after"], now);
  return new ExchangeError(kind, `${host} ${PHRASES.get(kind) ?? "gives an unexpected answer"} (${status})`, {
    refused: true,
    elsewhere: answer.elsewhere,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/**
 * RFC 9110 section 10.2.3: seconds, or a date. The Docker Hub sends a point in time as seconds since 1970
 * (docker/hub-feedback#2459), which as a duration would be decades. Absent when it is neither, invalid, or over; a
 * clock that runs ahead makes the duration unknown. At most 6 h.
 */
export function parseRetryAfter(
  header: string | readonly string[] | undefined,
  now: number,
): number | undefined {
  const text = (typeof header === "string" ? header : header?.[0])?.trim();
  if (text === undefined || text === "") return undefined;
  const ms = /^\d+$/.test(text) ? waitOf(Number(text), now) : Date.parse(text) - now;
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : undefined;
}

function waitOf(seconds: number, now: number): number {
  return (seconds < EARLIEST_MOMENT_S ? seconds : seconds - now / 1000) * 1000;
}

function kindOf(status: number): RegistryFailureKind {
  if (status === 401) return "unauthorized";
  if (status === 403) return "forbidden";
  if (status === 404) return "notFound";
  if (status === 408) return "unreachable";
  if (status === 429) return "rateLimited";
  return status >= 500 && status <= 599 ? "serverError" : "malformed";
}
