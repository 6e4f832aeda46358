/** How long a reflector waits before it connects again. */
import type { ApiError } from "@berth/kube";
import { type Random, reconnectDelay } from "./backoff.ts";

/**
 * The longest wait while no server can be reached, milliseconds. To knock costs one that is not there nothing, and what
 * waits for it to be back waits for this; jitter spreads those who come back. One that answers is left alone for longer.
 */
export const UNREACHABLE_CAP_MS = 3_000;

/** Of one connection. */
export class ReconnectWait {
  readonly #random: Random | undefined;
  #waitMs: number | undefined;
  #wasUnreachable = false;

  constructor(random?: Random) {
    this.#random = random;
  }

  /** A connection has worked. */
  reset(): void {
    this.#waitMs = undefined;
    this.#wasUnreachable = false;
  }

  /**
   * A connection has failed for this, or ended too soon.
   *
   * @returns milliseconds: `reconnectDelay`, at least what the server asks for. A server that answers after none could be
   *   reached is starting: the waits begin anew.
   */
  next(error: ApiError | undefined): number {
    const isUnreachable = error?.failure.kind === "unreachable";
    if (this.#wasUnreachable && !isUnreachable) this.#waitMs = undefined;
    this.#wasUnreachable = isUnreachable;
    const delayMs = reconnectDelay(this.#waitMs, {
      ...(this.#random && { random: this.#random }),
      ...(isUnreachable && { capMs: UNREACHABLE_CAP_MS }),
    });
    this.#waitMs = Math.max(delayMs, error?.retryAfterMs ?? 0);
    return this.#waitMs;
  }
}
