/** Bounds how many snapshots are read at once: a program that starts with hundreds of clusters goes on answering meanwhile. */
import type { Clock } from "../clock.ts";

/** Enough for clusters that are far away. With more, one turn of the event loop takes so long that probes time out. */
export const MAX_SNAPSHOTS = 32;
/** Then it goes on without its slot: clusters that are slow or hang hold up no others. Milliseconds. */
export const SLOT_MS = 5_000;

export class SnapshotSlots {
  readonly #clock: Clock;
  readonly #waiting = new Set<(isOurs: boolean) => void>();
  #taken = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves once a slot is free, in the order of calls, or when the signal aborts. Disposed at the end of the snapshot. */
  async take(signal?: AbortSignal): Promise<Disposable> {
    if (this.#taken < MAX_SNAPSHOTS) this.#taken += 1;
    else if (!(await this.#handOver(signal))) return { [Symbol.dispose]: () => undefined };
    let isOver = false;
    const release = (): void => {
      if (isOver) return;
      isOver = true;
      timer[Symbol.dispose]();
      const [next] = this.#waiting;
      if (next === undefined) this.#taken -= 1;
      else next(true);
    };
    const timer = this.#clock.schedule(SLOT_MS, release);
    return { [Symbol.dispose]: release };
  }

  /** Resolves `true` with the slot of another snapshot, `false` when the signal aborts. */
  #handOver(signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (isOurs: boolean): void => {
        this.#waiting.delete(end);
        signal?.removeEventListener("abort", stop);
        resolve(isOurs);
      };
      const stop = (): void => end(false);
      this.#waiting.add(end);
      signal?.addEventListener("abort", stop, { once: true });
    });
  }
}
