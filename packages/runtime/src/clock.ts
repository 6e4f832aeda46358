/**
 * Time as a dependency. Everything in the runtime that waits or compares times takes a `Clock`, so that tests and
 * replays can hold time still; nothing else calls `Date.now` or `setTimeout`.
 */
export interface Clock {
  /** Wall time, milliseconds since the Unix epoch, for times written to the cluster. Can jump. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary origin: for measuring and for deadlines. Never jumps. */
  monotonic(): number;
  /** Calls `callback` once, `delayMs` from now (0 and less: as soon as possible). Dispose to cancel. */
  schedule(delayMs: number, callback: () => void): Disposable;
}

/** Node clamps longer timers to 1 ms (`TIMEOUT_MAX` in lib/internal/timers.js), so longer waits are chained. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The machine's clock. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(delayMs, callback) {
    let timer: NodeJS.Timeout;
    const arm = (leftMs: number): void => {
      const partMs = Math.min(leftMs, LONGEST_TIMER_MS);
      timer = setTimeout(() => (leftMs > partMs ? arm(leftMs - partMs) : callback()), partMs);
      timer.unref();
    };
    arm(Math.max(0, delayMs));
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
};

/**
 * Resolves after `delayMs`, or at once when `signal` aborts: `true` when the time has passed, `false` when aborted.
 * Never rejects, so that a loop reads `while (await sleep(clock, ms, signal))`.
 */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve(false);
    const stop = (): void => {
      timer[Symbol.dispose]();
      resolve(false);
    };
    const timer = clock.schedule(delayMs, () => {
      signal?.removeEventListener("abort", stop);
      resolve(true);
    });
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A clock that moves only when `advance` is called: for tests and replays. */
export interface VirtualClock extends Clock {
  /** Moves time forward and runs what falls due, in order of time, letting promises settle after each. */
  advance(ms: number): Promise<void>;
  /** Milliseconds until the next scheduled callback; `undefined` when none is scheduled. */
  readonly nextInMs: number | undefined;
}

/**
 * A clock that stands still until `advance` is called.
 * @param startMs wall time at the beginning, ms since the epoch; default 2026-01-01T00:00:00Z.
 */
export function createVirtualClock(startMs = 1_767_225_600_000): VirtualClock {
  let elapsedMs = 0;
  let sequence = 0;
  const due: { atMs: number; order: number; callback: () => void }[] = [];
  const next = (): (typeof due)[number] | undefined =>
    due.reduce<(typeof due)[number] | undefined>(
      (first, entry) =>
        first === undefined ||
        entry.atMs < first.atMs ||
        (entry.atMs === first.atMs && entry.order < first.order)
          ? entry
          : first,
      undefined,
    );
  const remove = (entry: (typeof due)[number]): void => {
    const index = due.indexOf(entry);
    if (index >= 0) due.splice(index, 1);
  };
  return {
    now: () => startMs + elapsedMs,
    monotonic: () => elapsedMs,
    schedule(delayMs, callback) {
      const entry = { atMs: elapsedMs + Math.max(0, delayMs), order: sequence++, callback };
      due.push(entry);
      return { [Symbol.dispose]: () => remove(entry) };
    },
    async advance(ms) {
      const untilMs = elapsedMs + ms;
      await settle();
      for (let entry = next(); entry !== undefined && entry.atMs <= untilMs; entry = next()) {
        elapsedMs = entry.atMs;
        remove(entry);
        entry.callback();
        await settle();
      }
      elapsedMs = untilMs;
    },
    get nextInMs() {
      const entry = next();
      return entry === undefined ? undefined : entry.atMs - elapsedMs;
    },
  };
}

/** Lets every promise that is ready run: a macrotask comes after all microtasks queued so far. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
