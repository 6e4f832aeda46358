import { isApiError } from "@berth/kube";
import { type ReconcileResult, TerminalError } from "./reconcile.ts";
import { isShared } from "./shared-failure.ts";

/**
 * The result of a reconcile, as the metric counts it. `requeue`: the reconciler asked for a recheck, or the server
 * refused a write based on an old version, which is normal unless it lasts.
 */
export type ResultLabel = "success" | "requeue" | "error" | "terminal" | "deadline";

/** When the controller reconciles the key again. */
export type NextStep =
  | { readonly step: "forget" }
  | { readonly step: "recheck"; readonly afterMs: number }
  | { readonly step: "retry"; readonly baseMs?: number; readonly atLeastMs?: number }
  /** Only a change helps. The controller rechecks slowly, so that a permission granted later takes effect. */
  | { readonly step: "recheckSlowly" };

export interface Outcome {
  readonly result: ResultLabel;
  readonly next: NextStep;
  readonly error?: unknown;
}

/**
 * Base of the backoff after an answer that requires a new read. Milliseconds. About the time that a watch needs to
 * deliver the newer version on a healthy cluster; doubling covers slower ones.
 */
const REFRESH_BASE_MS = 20;
/** With the backoff above, some 2.5 s have passed by then. */
const MOST_REFUSALS = 7;

const SETTLED: Outcome = { result: "success", next: { step: "forget" } };

/** @throws RangeError for a `recheckAfterMs` that is not finite. */
export function outcomeOfResult(result: ReconcileResult | undefined): Outcome {
  const afterMs = result?.recheckAfterMs;
  if (afterMs === undefined) return SETTLED;
  if (!Number.isFinite(afterMs)) throw new RangeError(`recheckAfterMs must be finite, got ${afterMs}`);
  return { result: "requeue", next: { step: "recheck", afterMs } };
}

/**
 * The server refuses what was based on an old version. That ends when the watch brings the new one. Many refusals in a row
 * have another cause: a name that is taken, a namespace that is missing, a field of another manager.
 *
 * @param refusals how many there were in a row.
 */
export function ofLasting(outcome: Outcome, refusals: number): Outcome {
  return refusals > MOST_REFUSALS ? { ...outcome, result: "error" } : outcome;
}

/** Any error after the deadline counts as its consequence, because it was probably caused by the abort. */
export function outcomeOfDeadline(error?: unknown): Outcome {
  return { result: "deadline", next: { step: "retry" }, error };
}

export function outcomeOfError(error: unknown): Outcome {
  if (error instanceof TerminalError) return terminal(error);
  if (!isApiError(error)) return { result: "error", next: { step: "retry" }, error };
  // No backoff per key: other keys failed for the same cause, and one of them retries for all.
  if (isShared(error) && error.retryAfterMs !== undefined)
    return { result: "error", next: { step: "recheck", afterMs: error.retryAfterMs }, error };
  const atLeastMs = error.retryAfterMs ?? 0;
  if (error.retry === "refresh") {
    return { result: "requeue", next: { step: "retry", baseMs: REFRESH_BASE_MS, atLeastMs }, error };
  }
  // `aborted` by the reconciler's own signal is no refusal of the server, though the same request is futile.
  if (error.retry === "backoff" || error.failure.kind === "aborted") {
    return { result: "error", next: { step: "retry", atLeastMs }, error };
  }
  return terminal(error);
}

function terminal(error: unknown): Outcome {
  return { result: "terminal", next: { step: "recheckSlowly" }, error };
}

/** The message of a known failure; the whole stack of any other error, which may be a bug. */
export function describeFailure(error: unknown): string {
  if (isApiError(error) || error instanceof TerminalError) return error.message;
  return error instanceof Error ? (error.stack ?? String(error)) : String(error);
}
