/** Who may send a request now, so that neither Berth nor a registry is overrun, and no registry makes others wait. */

import { RecentMap } from "./recent-map.ts";

/** How many at once. */
export interface RequestTurnsOptions {
  /** In all. Default 16. */
  readonly total?: number;
  /** To one registry. Default 4: what container runtimes allow themselves for one pull. */
  readonly perRegistry?: number;
  /**
   * To registries that never answered, all together. Default half of all: names of images are free text, and hosts that
   * swallow requests must not keep those that answer waiting.
   */
  readonly unproven?: number;
}

/** The right to send requests to one registry; disposed of when they have ended. */
export interface Turn extends Disposable {
  /** The registry answered: its further turns count as those of a proven one. */
  answered(): void;
}

type Waiter = (turn: Turn | undefined) => void;

/** Registries that are remembered to have answered. Beyond it the one asked longest ago is forgotten, which costs it speed only. */
const MAX_PROVEN = 1_000;

/** First come, first served within a registry; registries take turns. */
export class RequestTurns {
  readonly #total: number;
  readonly #perRegistry: number;
  readonly #unproven: number;
  /** In the order in which they are served next. No empty list stays. */
  readonly #waiting = new Map<string, Waiter[]>();
  readonly #running = new Map<string, number>();
  readonly #proven = new RecentMap<string, true>(MAX_PROVEN);
  #runningInAll = 0;
  #runningUnproven = 0;
  #closed = false;

  constructor({ total = 16, perRegistry = 4, unproven = Math.ceil(total / 2) }: RequestTurnsOptions = {}) {
    this.#total = total;
    this.#perRegistry = perRegistry;
    this.#unproven = unproven;
  }

  /** Waits for a turn; `undefined` when it is closed meanwhile. Whoever waits is bounded by the caller. */
  take(registry: string): Promise<Turn | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    const { promise, resolve } = Promise.withResolvers<Turn | undefined>();
    const waiters = this.#waiting.get(registry);
    if (waiters === undefined) this.#waiting.set(registry, [resolve]);
    else waiters.push(resolve);
    this.#serve();
    return promise;
  }

  /** Nobody gets a turn any more. Turns that were taken go on. */
  close(): void {
    this.#closed = true;
    for (const waiter of [...this.#waiting.values()].flat()) waiter(undefined);
    this.#waiting.clear();
  }

  #serve(): void {
    while (this.#runningInAll < this.#total) {
      const registry = this.#waiting.keys().find((name) => this.#mayRun(name));
      if (registry === undefined) return;
      const waiters = this.#waiting.get(registry) ?? [];
      const waiter = waiters.shift();
      this.#waiting.delete(registry);
      if (waiters.length > 0) this.#waiting.set(registry, waiters);
      waiter?.(this.#start(registry));
    }
  }

  #mayRun(registry: string): boolean {
    if ((this.#running.get(registry) ?? 0) >= this.#perRegistry) return false;
    return this.#isProven(registry) || this.#runningUnproven < this.#unproven;
  }

  #start(registry: string): Turn {
    const unproven = this.#isProven(registry) ? 0 : 1;
    this.#count(registry, 1, unproven);
    let ended = false;
    return {
      answered: () => this.#proven.set(registry, true),
      [Symbol.dispose]: () => {
        if (ended) return;
        ended = true;
        this.#count(registry, -1, -unproven);
        this.#serve();
      },
    };
  }

  #count(registry: string, change: number, unproven: number): void {
    const running = (this.#running.get(registry) ?? 0) + change;
    if (running === 0) this.#running.delete(registry);
    else this.#running.set(registry, running);
    this.#runningInAll += change;
    this.#runningUnproven += unproven;
  }

  #isProven(registry: string): boolean {
    return this.#proven.get(registry) === true;
  }
}
