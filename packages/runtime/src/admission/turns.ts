import type { Clock } from "../clock.ts";

/** A longer turn makes its peer rest this many times as long: a costly peer gets a fifth of our time. */
const [BRIEF_MS, REST] = [4, 4];

/**
 * Turns for work that blocks the event loop, until disposed of. Each round of the loop has one turn, and each peer gets
 * one before any gets a second. So a review waits for at most one turn of each other peer. An `undefined` peer is
 * trusted and does not rest.
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
