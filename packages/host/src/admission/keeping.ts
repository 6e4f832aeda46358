/** Watches and writes admission objects only when a document needs them: without policies Berth needs no rights. */
import { type Clock, type Component, type Logger, sleep, whenAborted } from "@berth/runtime";

/** Interval between two tries of a failed request to the API server, ms. */
export const RETRY_MS = 5000;
/** How long the set-up may take before it counts as failed, ms. */
export const EARLY_MS = 10_000;
/** Interval between two tries to find leftovers, ms, after an error and while no document needs admission. */
const LEFTOVERS_MS = 300_000;

/** Records that a document needs admission. A `Demand` never ends. */
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
  /** Reads what the other steps need from the server. After an error Berth tries again. */
  readonly prepare: (signal: AbortSignal) => Promise<T>;
  /** Are there objects of an earlier process? */
  readonly hasLeftovers: (prepared: T, signal: AbortSignal) => Promise<boolean>;
  /** Pairs of an informer and a writer. */
  readonly pairs: (prepared: T) => readonly (readonly [Component, Component])[];
  readonly clock: Clock;
  readonly log: Logger;
}

/** Runs until `signal` aborts. Watches nothing before there is a demand or a leftover. */
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

/** Returns `undefined` after an error: the caller asks again. */
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
    log.debug("objects left in admission could not be read", { error: String(error) });
    // Berth may lack the right to read leftovers. While no document needs admission, it tries again only at times.
    if (demand.isThere) await sleep(clock, RETRY_MS, signal);
    else await Promise.race([demand.first, sleep(clock, LEFTOVERS_MS, signal)]);
    return undefined;
  }
}
