/** How long to wait before trying again. Jitter comes from an injected `random`, so that tests and replays repeat. */

/** A number in [0, 1), as `Math.random` gives. */
export type Random = () => number;

/** How waits grow from failure to failure. */
export interface BackoffOptions {
  /**
   * The upper bound of the first wait, in milliseconds. Default 50. The usual first failure is a conflict or a dropped
   * connection. A shorter wait would retry before the informer has seen the newer version.
   */
  readonly baseMs?: number;
  /**
   * The longest wait, in milliseconds. Default 300,000. Waits reach it after 13 doublings, about seven minutes of
   * failures. A user who fixes the cause waits at most this long for the next attempt.
   */
  readonly capMs?: number;
  /** Default `Math.random`. */
  readonly random?: Random;
}

const DEFAULT_BASE_MS = 50;
const DEFAULT_CAP_MS = 300_000;

/**
 * The wait after the `failures`-th failure in a row (1 is the first): a random time between half of
 * `baseMs · 2^(failures-1)` and all of it, capped. Keeping the lower half means that waits never shrink from one
 * failure to the next below the cap, and spreading the upper half keeps keys that failed together apart.
 *
 * @throws RangeError when the options are not positive or the base exceeds the cap.
 */
export function backoffDelay(failures: number, options: BackoffOptions = {}): number {
  const { baseMs = DEFAULT_BASE_MS, capMs = DEFAULT_CAP_MS, random = Math.random } = options;
  checkBounds(baseMs, capMs);
  const ceilingMs = Math.min(capMs, baseMs * 2 ** (Math.max(1, failures) - 1));
  return (ceilingMs / 2) * (1 + random());
}

/** How waits grow, and how many keys are remembered. */
export interface KeyedBackoffOptions extends BackoffOptions {
  /** Keys remembered, default 1,000,000. Above it the key that failed longest ago starts over; no key is lost. */
  readonly maxKeys?: number;
}

/** Counts failures in a row per key, and turns the count into a wait. */
export class KeyedBackoff {
  readonly #options: BackoffOptions;
  readonly #maxKeys: number;
  /** In order of the last failure, so that the first is the one to forget. */
  readonly #failures = new Map<string, number>();

  constructor(options: KeyedBackoffOptions = {}) {
    checkBounds(options.baseMs ?? DEFAULT_BASE_MS, options.capMs ?? DEFAULT_CAP_MS);
    this.#options = options;
    this.#maxKeys = options.maxKeys ?? 1_000_000;
  }

  /** Counts one more failure of `key` and gives the wait, ms. `baseMs` replaces the base for this wait only. */
  next(key: string, baseMs?: number): number {
    const failures = this.failures(key) + 1;
    this.#failures.delete(key);
    const [oldest] = this.#failures.keys();
    if (this.#failures.size >= this.#maxKeys && oldest !== undefined) this.#failures.delete(oldest);
    this.#failures.set(key, failures);
    return backoffDelay(failures, baseMs === undefined ? this.#options : { ...this.#options, baseMs });
  }

  /** Failures of `key` since it was last forgotten. */
  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** Resets the count of this key. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Resets the count of every key. */
  clear(): void {
    this.#failures.clear();
  }

  /** Keys that have failed and were not forgotten. */
  get size(): number {
    return this.#failures.size;
  }
}

/**
 * The wait before reconnecting, with decorrelated jitter: random between `baseMs` (default 200) and three times the
 * previous wait, capped at `capMs` (default 30,000). Unlike doubling, clients that lost one server together drift
 * apart even when they began in step. Pass `undefined` for the first wait and after a connection that worked.
 *
 * Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. The cap is that of client-go's reflector.
 *
 * @throws RangeError when the options are not positive or the base exceeds the cap.
 */
export function reconnectDelay(previousMs: number | undefined, options: BackoffOptions = {}): number {
  const { baseMs = 200, capMs = 30_000, random = Math.random } = options;
  checkBounds(baseMs, capMs);
  const highestMs = Math.max(baseMs, previousMs ?? baseMs) * 3;
  return Math.min(capMs, baseMs + random() * (highestMs - baseMs));
}

function checkBounds(baseMs: number, capMs: number): void {
  if (!(baseMs > 0) || !(capMs >= baseMs)) {
    throw new RangeError(`backoff needs 0 < baseMs <= capMs, got baseMs ${baseMs} and capMs ${capMs}`);
  }
}
