import type { Logger } from "./log.ts";

/** What a reconcile says about the future. Nothing: settled until something changes. */
export interface ReconcileResult {
  /** Look again after this many milliseconds, sooner if something changes. */
  readonly recheckAfterMs?: number;
}

/** What a reconcile gets beside its key. */
export interface ReconcileContext {
  /** Aborts when the deadline of this reconcile passes or the controller stops. */
  readonly signal: AbortSignal;
  readonly log: Logger;
}

/**
 * Level-based: the key says what to look at, never what happened. Returning means settled; throwing means try
 * again with backoff, except `TerminalError`, which is reported and tried again on the next change, or after minutes.
 */
export type Reconcile<K> = (key: K, context: ReconcileContext) => Promise<ReconcileResult | undefined>;

/** Thrown by a reconciler to say that trying again without a change cannot help. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";
}
