import type { Clock } from "../clock.ts";

/** A turn that took longer has its peer rest so many times as long: one that sends what is costly has a fifth of our time. */
const [BRIEF_MS, REST] = [4, 4];

/**
 * Turns for what keeps the event loop busy, until disposed of: one for each round of the loop, and one for each peer before
 * any has a second. So a review waits for one of each other peer at most, however many these send. A peer that is
 * `undefined` is trusted, and does not rest.
 */
export function createTurns(clock: Clock): (peer: string | undefined) => Promise<Disposable> {
  /** In the order of their turns. */
  const waiting = new Map<string | undefined, (() => void)[]>();
  const resting = new Set<string | undefined>();
  let isTaken = false;
  const next = (): void => {
    const [peer, [begin, ...others]] = waiting.entries().find(([it]) => !resting.has(it)) ?? [undefined, []];
    isTaken = begin !== undefined;
    if (begin === undefined) return;
    waiting.delete(peer);
    if (others.length > 0) waiting.set(peer, others);
    begin();
    setImmediate(next);
  };
  const rest = (peer: string | undefined, ms: number): void => {
    resting.add(peer);
    clock.schedule(ms, () => {
      resting.delete(peer);
      if (!isTaken) next();
    });
  };
  return async (peer) => {
    await new Promise<void>((begin) => {
      waiting.set(peer, [...(waiting.get(peer) ?? []), begin]);
      if (!isTaken) next();
    });
    const beganMs = clock.monotonic();
    return {
      [Symbol.dispose]() {
        const tookMs = clock.monotonic() - beganMs;
        if (tookMs > BRIEF_MS && peer !== undefined) rest(peer, REST * tookMs);
      },
    };
  };
}
