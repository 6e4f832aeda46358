import { isApiError } from "@berth/kube";
import { type ReconcileResult, TerminalError } from "./reconcile.ts";
import { isShared } from "./shared-failure.ts";

/**
 * How a reconcile ended, as the metric counts it. `requeue`: it asked for another look, or was refused for having
 * decided on an old version, which is ordinary.
 */
export type ResultLabel = "success" | "requeue" | "error" | "terminal" | "deadline";

/** What becomes of the key. */
export type NextStep =
  | { readonly step: "forget" }
  | { readonly step: "recheck"; readonly afterMs: number }
  | { readonly step: "retry"; readonly baseMs?: number; readonly atLeastMs?: number }
  /** Nothing helps until something changes; looked at again slowly, so that a fixed permission heals by itself. */
  | { readonly step: "recheckSlowly" };

export interface Outcome {
  readonly result: ResultLabel;
  readonly next: NextStep;
  readonly error?: unknown;
}

/**
 * Base of the backoff after an answer that only says "read again". Milliseconds. About what a watch needs to
 * deliver the newer version on a healthy cluster; when it needs longer, doubling gets there.
 */
const REFRESH_BASE_MS = 20;

const SETTLED: Outcome = { result: "success", next: { step: "forget" } };

/** @throws RangeError for a `recheckAfterMs` that is not finite. */
export function outcomeOfResult(result: ReconcileResult | undefined): Outcome {
  const afterMs = result?.recheckAfterMs;
  if (afterMs === undefined) return SETTLED;
  if (!Number.isFinite(afterMs)) throw new RangeError(`recheckAfterMs must be finite, got ${afterMs}`);
  return { result: "requeue", next: { step: "recheck", afterMs } };
}

/** Whatever is thrown past the deadline is its consequence: what was cut off says little about itself. */
export function outcomeOfDeadline(error?: unknown): Outcome {
  return { result: "deadline", next: { step: "retry" }, error };
}

export function outcomeOfError(error: unknown): Outcome {
  if (error instanceof TerminalError) return terminal(error);
  if (!isApiError(error)) return { result: "error", next: { step: "retry" }, error };
  // Not later for each failure of the key: other keys have failed for the same cause, and one of them tries for all.
  if (isShared(error) && error.retryAfterMs !== undefined)
    return { result: "error", next: { step: "recheck", afterMs: error.retryAfterMs }, error };
  const atLeastMs = error.retryAfterMs ?? 0;
  if (error.retry === "refresh") {
    return { result: "requeue", next: { step: "retry", baseMs: REFRESH_BASE_MS, atLeastMs }, error };
  }
  // `aborted` by a signal of the reconciler's own is no refusal of the server, though the same request is futile.
  if (error.retry === "backoff" || error.failure.kind === "aborted") {
    return { result: "error", next: { step: "retry", atLeastMs }, error };
  }
  return terminal(error);
}

function terminal(error: unknown): Outcome {
  return { result: "terminal", next: { step: "recheckSlowly" }, error };
}

/** The message of a failure we know, the whole stack of one that may be a mistake of ours. */
export function describeFailure(error: unknown): string {
  if (isApiError(error) || error instanceof TerminalError) return error.message;
  return error instanceof Error ? (error.stack ?? String(error)) : String(error);
}
