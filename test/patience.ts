/** How tests wait and measure on a machine that may stand still for seconds at any moment. */
import { eventually } from "@berth/testcluster";

/** Informers that lost their server, and everything that waits for them. */
export const RECONNECTED = { timeoutMs: 60_000 } as const;

/** What controllers, scheduler, and garbage collector have to do first, one after the other, may take them a moment. */
export const PATIENT = { timeoutMs: 60_000, everyMs: 100 } as const;

/** Waits for what controllers bring about. */
export function patiently<T>(check: () => T | Promise<T>): Promise<T> {
  return eventually(check, PATIENT);
}

const ATTEMPTS = 5;

/**
 * The time that something takes when the machine does not stand still meanwhile: measured anew until it is below the
 * limit, five times at most. What is too slow by itself is so every time.
 *
 * @param measure gives milliseconds. What it throws is not tried again.
 * @returns the first that is below the limit, else the least.
 */
export async function quickest(
  limitMs: number,
  measure: (attempt: number) => Promise<number>,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 1; attempt <= ATTEMPTS && least >= limitMs; attempt += 1)
    least = Math.min(least, await measure(attempt));
  return least;
}
