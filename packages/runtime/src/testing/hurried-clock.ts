import { type Clock, systemClock } from "../clock.ts";

/** A clock whose monotonic time and timers run `pace` times as fast as the machine's, and whose wall time does not. */
export function hurriedClock(pace: number): Clock {
  return {
    now: () => systemClock.now(),
    monotonic: () => systemClock.monotonic() * pace,
    schedule: (delayMs, callback) => systemClock.schedule(delayMs / pace, callback),
  };
}
