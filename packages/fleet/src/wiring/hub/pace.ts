import type { Clock } from "@berth/runtime";

export interface PaceOptions {
  /** One in this time, in the long run, ms. */
  readonly everyMs: number;
  /** So many at once. */
  readonly burst: number;
  /** What has to wait waits at least so long, ms: it takes time to tell many. Default 0. */
  readonly leastWaitMs?: number;
}

/** More ids than these are looked through for those that may go at once, and these are forgotten. */
const MANY = 10_000;

/** How often each of many things may happen. */
export class Pace {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #options: PaceOptions;
  /** When all that happened would have happened, one by one. Monotonic ms. */
  readonly #until = new Map<string, number>();

  constructor(clock: Pick<Clock, "monotonic">, options: PaceOptions) {
    this.#clock = clock;
    this.#options = options;
  }

  /** @returns 0, or how long it has to wait. */
  wait(id: string): number {
    const { everyMs, burst, leastWaitMs = 0 } = this.#options;
    const waitMs = this.#untilMs(id) + everyMs - this.#clock.monotonic() - everyMs * burst;
    return waitMs <= 0 ? 0 : Math.max(waitMs, leastWaitMs);
  }

  /** Notes that it happens now. @returns 0, or how long it has to wait: then it does not happen. */
  take(id: string): number {
    const waitMs = this.wait(id);
    if (waitMs > 0) return waitMs;
    const nowMs = this.#clock.monotonic();
    if (this.#until.size >= MANY)
      for (const [other, doneMs] of this.#until) if (doneMs <= nowMs) this.#until.delete(other);
    this.#until.set(id, this.#untilMs(id) + this.#options.everyMs);
    return 0;
  }

  #untilMs(id: string): number {
    const nowMs = this.#clock.monotonic();
    return Math.max(this.#until.get(id) ?? nowMs, nowMs);
  }
}
