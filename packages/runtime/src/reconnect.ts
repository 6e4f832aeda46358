/** How long a reflector waits before it connects again. */
import type { ApiError } from "@berth/kube";
import { type Random, reconnectDelay } from "./backoff.ts";
import { isShared } from "./shared-failure.ts";

/**
 * The longest wait while no connection comes about, milliseconds. To knock costs a server that is not there nothing, and what
 * waits for it to be back waits for this. One that answers, or breaks connections off, is left alone for longer.
 */
export const ABSENT_CAP_MS = 3_000;

/** Of one connection. */
export class ReconnectWait {
  readonly #random: { readonly random?: Random };
  /** While no connection comes about. */
  #absentMs: number | undefined;
  /** Else. */
  #failingMs: number | undefined;

  /** @param random default `Math.random`. */
  constructor(random?: Random) {
    this.#random = random === undefined ? {} : { random };
  }

  /** A connection has worked. */
  reset(): void {
    this.#absentMs = undefined;
    this.#failingMs = undefined;
  }

  /**
   * A connection has failed for this, or ended too soon.
   *
   * @returns milliseconds: `reconnectDelay`, at least what the server asks for. The waits for a server that is not there
   *   and for one that fails grow by themselves: one that starts is asked soon, and one that comes and goes no more often.
   */
  next(error: ApiError | undefined): number {
    const failure = error?.failure;
    if (failure?.kind === "forbidden" && isShared(error)) return error.retryAfterMs ?? 0;
    if (failure?.kind === "unreachable" && failure.noConnection === true) {
      this.#absentMs = reconnectDelay(this.#absentMs, { ...this.#random, capMs: ABSENT_CAP_MS });
      return this.#absentMs;
    }
    this.#failingMs = Math.max(reconnectDelay(this.#failingMs, this.#random), error?.retryAfterMs ?? 0);
    return this.#failingMs;
  }
}
