import { setTimeout as delay } from "node:timers/promises";

/** How long to keep trying, and how often. */
export interface EventuallyOptions {
  /** How long to keep trying. Milliseconds, default 20,000. */
  readonly timeoutMs?: number;
  /** Time between two tries. Milliseconds, default 50. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
}

/** The check never passed. The message ends with its last failure, which is also the cause. */
export class NotEventuallyError extends Error {
  override readonly name = "NotEventuallyError";
}

/**
 * Runs `check` until it neither throws nor rejects, and resolves with its value. A check that hangs is abandoned at
 * the deadline; it gets a signal that aborts then.
 *
 * @throws NotEventuallyError after `timeoutMs`; the reason of `signal` when that aborts first.
 */
export async function eventually<T>(
  check: (signal: AbortSignal) => T | Promise<T>,
  { timeoutMs = 20_000, everyMs = 50, signal }: EventuallyOptions = {},
): Promise<T> {
  using deadline = createDeadline(timeoutMs, signal);
  let tries = 0;
  let failure: unknown = new Error("the check did not answer");
  while (!deadline.signal.aborted) {
    tries += 1;
    try {
      return await Promise.race([check(deadline.signal), deadline.expired]);
    } catch (error) {
      // What a check says because its signal aborted tells less than why it failed before.
      if (!deadline.signal.aborted) failure = error;
    }
    await delay(everyMs, undefined, { signal: deadline.signal }).catch(() => undefined);
  }
  signal?.throwIfAborted();
  const said = failure instanceof Error ? failure.message : String(failure);
  throw new NotEventuallyError(`not within ${timeoutMs} ms (${tries} tries): ${said}`, { cause: failure });
}

interface Deadline extends Disposable {
  readonly signal: AbortSignal;
  /** Rejects when the signal aborts. */
  readonly expired: Promise<never>;
}

function createDeadline(timeoutMs: number, outer: AbortSignal | undefined): Deadline {
  const controller = new AbortController();
  const { promise: expired, reject } = Promise.withResolvers<never>();
  expired.catch(() => undefined); // possibly no caller races against it when it fires
  const end = (): void => {
    controller.abort();
    reject(new Error("the deadline has passed"));
  };
  const timer = setTimeout(end, timeoutMs);
  if (outer?.aborted) end();
  else outer?.addEventListener("abort", end, { once: true });
  return {
    signal: controller.signal,
    expired,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      outer?.removeEventListener("abort", end);
    },
  };
}
