/** Promises that wait until something observed by a proxy has become true, without polling. */
export interface Conditions {
  /** Resolves as soon as `holds()` is true; it is asked at once and after every change. Rejects when closed first. */
  until(holds: () => boolean): Promise<void>;
  /** Something was observed: ask every waiting condition again. */
  changed(): void;
  /** Rejects callers that still wait, and later callers with a condition that does not hold. */
  close(reason: Error): void;
}

interface Waiter {
  readonly holds: () => boolean;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

export function createConditions(): Conditions {
  const waiting = new Set<Waiter>();
  let closed: Error | undefined;
  return {
    until(holds) {
      return new Promise((resolve, reject) => {
        if (holds()) resolve();
        else if (closed) reject(closed);
        else waiting.add({ holds, resolve, reject });
      });
    },
    changed() {
      for (const waiter of waiting) settle(waiter, waiting);
    },
    close(reason) {
      closed ??= reason;
      for (const { reject } of waiting) reject(reason);
      waiting.clear();
    },
  };
}

/** A condition that throws rejects its own promise and no other. */
function settle(waiter: Waiter, waiting: Set<Waiter>): void {
  try {
    if (!waiter.holds()) return;
    waiter.resolve();
  } catch (error) {
    waiter.reject(error);
  }
  waiting.delete(waiter);
}
