import type { Clock } from "@berth/runtime";

export interface PaceOptions {
  /** One in this time, in the long run, ms. */
  readonly everyMs: number;
  /** So many at once. */
  readonly burst: number;
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

  /** Notes that it happens now. @returns 0, or how long it has to wait: then it does not happen. */
  take(id: string): number {
    const { everyMs, burst } = this.#options;
    const nowMs = this.#clock.monotonic();
    const untilMs = Math.max(this.#until.get(id) ?? nowMs, nowMs);
    const waitMs = untilMs + everyMs - nowMs - everyMs * burst;
    if (waitMs > 0) return waitMs;
    if (this.#until.size >= MANY)
      for (const [other, doneMs] of this.#until) if (doneMs <= nowMs) this.#until.delete(other);
    this.#until.set(id, untilMs + everyMs);
    return 0;
  }
}
