/** Clocks on which a long time of a real Berth passes in seconds. */
import { type Clock, systemClock } from "@berth/runtime";

export interface LeapingClock extends Clock {
  /**
   * Moves time forward, from one timer that falls due to the next; after each there is a moment for what it has begun.
   * What talks to servers on this machine is rarely done with less.
   *
   * @param closeMs Timers that fall due within this time have one moment. Default 50.
   */
  leap(ms: number, closeMs?: number): Promise<void>;
}

/** Of real time, milliseconds. */
const MOMENT_MS = 3;

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
  real: Disposable;
}

/** A clock that runs as the machine's does, and can be moved ahead. */
export function createLeapingClock(): LeapingClock {
  let aheadMs = 0;
  const timers = new Set<Timer>();
  const monotonic = (): number => systemClock.monotonic() + aheadMs;
  const arm = (timer: Timer): void => {
    timer.real = systemClock.schedule(timer.atMs - monotonic(), () => {
      timers.delete(timer);
      timer.callback();
    });
  };
  return {
    now: () => systemClock.now() + aheadMs,
    monotonic,
    schedule(delayMs, callback) {
      const timer: Timer = {
        atMs: monotonic() + delayMs,
        callback,
        real: { [Symbol.dispose]: () => undefined },
      };
      timers.add(timer);
      arm(timer);
      return {
        [Symbol.dispose]() {
          timers.delete(timer);
          timer.real[Symbol.dispose]();
        },
      };
    },
    async leap(ms, closeMs = 50) {
      const target = monotonic() + ms;
      for (let leftMs = ms; leftMs > 0; leftMs = target - monotonic()) {
        const next = Math.min(...[...timers].map(({ atMs }) => atMs - monotonic()));
        aheadMs += Math.min(leftMs, Math.max(next, closeMs));
        for (const timer of due(timers, monotonic())) {
          timer.real[Symbol.dispose]();
          timers.delete(timer);
          timer.callback();
        }
        await new Promise((resolve) => setTimeout(resolve, MOMENT_MS));
      }
      for (const timer of timers) {
        timer.real[Symbol.dispose]();
        arm(timer);
      }
    },
  };
}

/** In the order of time. */
function due(timers: ReadonlySet<Timer>, now: number): readonly Timer[] {
  return [...timers].filter(({ atMs }) => atMs <= now).sort((a, b) => a.atMs - b.atMs);
}
