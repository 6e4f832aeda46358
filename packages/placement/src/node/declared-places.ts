/** The taints, and `unschedulable`, that this installation has declared, now or earlier. */
import { isApiError, isRefusalOfObject } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { holdsPods, type MarkId } from "./mark.ts";

/** Stores the places where no node can write. Both methods reject with `ApiError`. */
export interface PlaceStore {
  load(signal: AbortSignal): Promise<Iterable<string>>;
  /** Adds to the stored places. */
  add(ids: readonly MarkId[], signal: AbortSignal): Promise<void>;
}

/** How long marks wait while the API server refuses the store. It can refuse all requests shortly after its start. */
const PATIENCE_MS = 30_000;

/** Limits memory, because a kubelet can put any number of places in the record of its node. */
const MAX_DOUBTED = 1_000;

/**
 * Guarantees: `declare` stores each place once before it resolves. While the API server refuses this (for example, the
 * permission is missing), `declare` rejects for `PATIENCE_MS`. After that it resolves, keeps the places only in memory,
 * and tries again at each call. Without a store, places are always only in memory.
 */
export class DeclaredPlaces {
  readonly #store: PlaceStore | undefined;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #known = new Set<MarkId>();
  readonly #unsaved = new Set<MarkId>();
  /** Sets that are declared and stored. This check is fast because it runs for each node. */
  readonly #settled = new WeakSet<ReadonlySet<MarkId>>();
  /** Places that nodes record but the list did not contain at the last read. */
  readonly #doubted = new Set<MarkId>();
  #isRead: boolean;
  #refusedSinceMs: number | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(clock: Pick<Clock, "monotonic">, store?: PlaceStore) {
    this.#clock = clock;
    this.#store = store;
    this.#isRead = store === undefined;
  }

  get known(): ReadonlySet<MarkId> {
    return this.#known;
  }

  /**
   * Reports places that a node records but that are not declared. The previous leader may have added them since the
   * last read, so each place causes one more read. @returns true when the caller should check again later.
   */
  doubt(ids: readonly MarkId[]): boolean {
    if (!this.#isRead || this.#store === undefined) return ids.length > 0 && !this.#isRead;
    const doubts = ids.filter((id) => !this.#doubted.has(id));
    if (this.#doubted.size > MAX_DOUBTED) this.#doubted.clear();
    for (const id of doubts) this.#doubted.add(id);
    this.#isRead = doubts.length === 0;
    return !this.#isRead;
  }

  /** Reads the stored places, if not read yet. Resolves also when the API server refuses; a later call tries again. */
  async read(signal: AbortSignal): Promise<void> {
    if (!this.#isRead) await this.#inTurn(() => this.#load(signal));
  }

  async declare(places: Iterable<ReadonlySet<MarkId>>, signal: AbortSignal): Promise<void> {
    for (const set of places) {
      if (this.#settled.has(set)) continue;
      await this.#inTurn(() => this.#save(set, signal));
      if (this.#unsaved.size === 0) this.#settled.add(set);
    }
  }

  /** Runs calls one after the other, so that calls for many nodes at once need only one request. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#work.then(work);
    this.#work = turn.catch(() => undefined);
    return turn;
  }

  async #load(signal: AbortSignal): Promise<void> {
    const store = this.#store;
    if (this.#isRead || store === undefined) return;
    try {
      for (const id of await store.load(signal)) if (holdsPods(id)) this.#known.add(id);
      this.#isRead = true;
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
  }

  async #save(places: ReadonlySet<MarkId>, signal: AbortSignal): Promise<void> {
    for (const id of places) if (!this.#known.has(id)) this.#unsaved.add(id);
    for (const id of this.#unsaved) this.#known.add(id);
    if (this.#unsaved.size === 0) return;
    try {
      await this.#store?.add([...this.#unsaved], signal);
      this.#unsaved.clear();
      this.#refusedSinceMs = undefined;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#refusedSinceMs ??= this.#clock.monotonic();
      if (this.#clock.monotonic() - this.#refusedSinceMs < PATIENCE_MS) throw error;
    }
  }
}

/** True when the permission or the namespace is missing, or an admission policy refuses the object. */
function isRefusal(error: unknown): boolean {
  return isApiError(error, "forbidden", "notFound") || isRefusalOfObject(error);
}
