/** A clock that runs as the machine's does, and can be moved ahead: an hour of a real Berth passes in seconds. */
import { type Clock, systemClock } from "@berth/runtime";

export interface LeapingClock extends Clock {
  /** Moves time forward at once; what falls due meanwhile is called, each at its turn. */
  leap(ms: number): void;
}

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
  real: Disposable;
}

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
    leap(ms) {
      aheadMs += ms;
      for (const timer of [...timers].sort((a, b) => a.atMs - b.atMs)) {
        timer.real[Symbol.dispose]();
        arm(timer);
      }
    },
  };
}
