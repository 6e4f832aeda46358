/**
 * Turns for what keeps the event loop busy: one for each round of the loop, and one for each peer before any has a second.
 * So a review waits for one of each other peer at most, however many these send.
 */
export function createTurns(): (peer: string) => Promise<void> {
  /** In the order of their turns. */
  const waiting = new Map<string, (() => void)[]>();
  let isTaken = false;
  const next = (): void => {
    const [first] = waiting;
    isTaken = first !== undefined;
    if (first === undefined) return;
    const [peer, [begin, ...others]] = first;
    waiting.delete(peer);
    if (others.length > 0) waiting.set(peer, others);
    begin?.();
    setImmediate(next);
  };
  return (peer) =>
    new Promise((resolve) => {
      if (isTaken) return void waiting.set(peer, [...(waiting.get(peer) ?? []), resolve]);
      isTaken = true;
      setImmediate(next);
      resolve();
    });
}
