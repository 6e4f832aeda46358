/** The taints, and `unschedulable`, that this installation has declared, now or earlier. */
import { isApiError, isRefusalOfObject } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { holdsPods, type MarkId } from "./mark.ts";

/** Keeps them where no node can write. Both reject with `ApiError`. */
export interface PlaceStore {
  load(signal: AbortSignal): Promise<Iterable<string>>;
  /** Adds to what is stored. */
  add(ids: readonly MarkId[], signal: AbortSignal): Promise<void>;
}

/** How long marks wait for a store that the API server refuses: it refuses everything for a moment after a start. */
const PATIENCE_MS = 30_000;

/** A kubelet may record what it likes. */
const MAX_DOUBTED = 1_000;

/**
 * Guarantees: what is declared is stored before `declare` resolves, each place once. While the API server refuses that
 * (the permission is missing, say), `declare` rejects for `PATIENCE_MS`; then what is declared is known to this process
 * alone, and each call tries again. Without a store it always is.
 */
export class DeclaredPlaces {
  readonly #store: PlaceStore | undefined;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #known = new Set<MarkId>();
  readonly #unsaved = new Set<MarkId>();
  /** Declared and stored: asked of each node. */
  readonly #settled = new WeakSet<ReadonlySet<MarkId>>();
  /** Recorded on nodes and not in the list, when that was read last. */
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
   * These are recorded on a node, and were not declared. The leader before may have added them since the list was read,
   * so each has it read once more. @returns whether it is worth looking again later.
   */
  doubt(ids: readonly MarkId[]): boolean {
    if (!this.#isRead || this.#store === undefined) return ids.length > 0 && !this.#isRead;
    const doubts = ids.filter((id) => !this.#doubted.has(id));
    if (this.#doubted.size > MAX_DOUBTED) this.#doubted.clear();
    for (const id of doubts) this.#doubted.add(id);
    this.#isRead = doubts.length === 0;
    return !this.#isRead;
  }

  /** Reads what was declared earlier; at once when it has been. While the API server refuses that, it is not read. */
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

  /** Nodes that ask at one time are served by one request. */
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

/** The permission or the namespace is missing, or a policy is in the way. */
function isRefusal(error: unknown): boolean {
  return isApiError(error, "forbidden", "notFound") || isRefusalOfObject(error);
}
