/** How long a reflector waits before it connects again. */
import type { ApiError } from "@berth/kube";
import { type Random, reconnectDelay } from "./backoff.ts";
import { isShared } from "./shared-failure.ts";

/**
 * The longest wait while no connection can be made, milliseconds. Attempts cost an absent server nothing, and users
 * wait for its return. A server that answers, or that breaks connections, is given longer pauses.
 */
export const ABSENT_CAP_MS = 3_000;

/** The waits of one connection. */
export class ReconnectWait {
  readonly #random: { readonly random?: Random };
  /** Last wait while no connection can be made. */
  #absentMs: number | undefined;
  /** Last wait after other failures. */
  #failingMs: number | undefined;

  /** @param random default `Math.random`. */
  constructor(random?: Random) {
    this.#random = random === undefined ? {} : { random };
  }

  /** Call it when a connection has worked. */
  reset(): void {
    this.#absentMs = undefined;
    this.#failingMs = undefined;
  }

  /**
   * A connection has failed with this error, or ended too soon.
   *
   * @returns milliseconds: `reconnectDelay`, at least the time that the server asks for. Waits for an absent server and
   *   for a failing one grow separately, so a server that starts is tried soon.
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
