import type { Logger } from "./log.ts";

/** The result of a reconcile. Without one: settled until something changes. */
export interface ReconcileResult {
  /** Reconcile again after this many milliseconds, or sooner if something changes. */
  readonly recheckAfterMs?: number | undefined;
}

/** The soonest of these waits; `undefined` without one. */
export function earliest(...waitsMs: readonly (number | undefined)[]): number | undefined {
  const given = waitsMs.filter((waitMs) => waitMs !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}

/** What a reconcile receives besides its key. */
export interface ReconcileContext {
  /** Aborts when the deadline of this reconcile passes or the controller stops. */
  readonly signal: AbortSignal;
  readonly log: Logger;
}

/**
 * Level-based: the key says what to look at, never what happened. Returning means settled. Throwing means retry with
 * backoff. A `TerminalError` is reported instead, and retried on the next change or after minutes.
 */
export type Reconcile<K> = (key: K, context: ReconcileContext) => Promise<ReconcileResult | undefined>;

/** A reconciler throws it when a retry without a change cannot help. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";
}
