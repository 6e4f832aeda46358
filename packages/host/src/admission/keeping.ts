/** Objects of admission are watched and written only once somebody needs that: who has no policies needs no rights. */
import { type Clock, type Component, type Logger, sleep, whenAborted } from "@berth/runtime";

/** How soon a question to the server that failed is asked again. Milliseconds. */
export const RETRY_MS = 5000;
/** How long setting up may take before it counts as failed. Milliseconds. */
export const EARLY_MS = 10_000;
/** How soon leftovers that may not be looked at are looked for again, while nothing is wanted. Milliseconds. */
const LEFTOVERS_MS = 300_000;

/** Whether there is anything to keep; it is never taken back. */
export class Demand {
  readonly #first = Promise.withResolvers<void>();
  #isThere = false;

  get isThere(): boolean {
    return this.#isThere;
  }

  /** Resolves with the first `note`. */
  get first(): Promise<void> {
    return this.#first.promise;
  }

  note(): void {
    this.#isThere = true;
    this.#first.resolve();
  }
}

export interface Keeping<T> {
  readonly demand: Demand;
  /** What has to be known of the server first. What it throws is followed by another try. */
  readonly prepare: (signal: AbortSignal) => Promise<T>;
  /** Has an earlier process left objects? */
  readonly hasLeftovers: (prepared: T, signal: AbortSignal) => Promise<boolean>;
  /** What sees, and what writes. */
  readonly pairs: (prepared: T) => readonly (readonly [Component, Component])[];
  readonly clock: Clock;
  readonly log: Logger;
}

/** Until `signal` aborts. Nothing is watched before something is wanted, or was left. */
export async function keepOnceNeeded<T>(keeping: Keeping<T>, signal: AbortSignal): Promise<void> {
  let needed: { readonly prepared: T } | undefined;
  while (!signal.aborted && needed === undefined) needed = await whenNeeded(keeping, signal);
  if (signal.aborted || needed === undefined) return;
  await Promise.all(
    keeping.pairs(needed.prepared).map(async ([informer, writer]) => {
      const { ended } = await informer.start(signal);
      await Promise.all([ended, writer.start(signal).then((running) => running.ended)]);
    }),
  );
}

/** `undefined` when it is to be asked again. */
async function whenNeeded<T>(
  { demand, prepare, hasLeftovers, clock, log }: Keeping<T>,
  signal: AbortSignal,
): Promise<{ readonly prepared: T } | undefined> {
  try {
    const prepared = await prepare(signal);
    if (!demand.isThere && !(await hasLeftovers(prepared, signal)))
      await Promise.race([demand.first, whenAborted(signal)]);
    return { prepared };
  } catch (error) {
    if (signal.aborted) return undefined;
    log.debug("what is left in admission could not be looked at", { error: String(error) });
    // Without the right to look there may be nothing to do at all: then it stays at looking.
    if (demand.isThere) await sleep(clock, RETRY_MS, signal);
    else await Promise.race([demand.first, sleep(clock, LEFTOVERS_MS, signal)]);
    return undefined;
  }
}
