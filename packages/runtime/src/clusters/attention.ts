import { type Clock, sleep } from "../clock.ts";

/** Between two looks at the clock, ms. */
const BEAT_MS = 500;

/**
 * For how long this process stood still: without CPU, or with an event loop that had no end of work. Answers that came meanwhile
 * were not read, so that time is no silence of a server.
 */
export class Attention {
  readonly #clock: Clock;
  #lostMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Monotonic milliseconds in which the process did not stand still. */
  get nowMs(): number {
    return this.#clock.monotonic() - this.#lostMs;
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    let before = this.#clock.monotonic();
    while (await sleep(this.#clock, BEAT_MS, signal)) {
      const now = this.#clock.monotonic();
      this.#lostMs += Math.max(0, now - before - BEAT_MS);
      before = now;
    }
  }
}
