/** Who may send a request now, so that neither Berth nor a registry is overrun, and no namespace or registry makes others wait. */

import { RecentMap } from "./recent-map.ts";

/** How many at once. */
export interface RequestTurnsOptions {
  /** In all. Default 16. */
  readonly total?: number;
  /** To one registry. Default 4: what container runtimes allow themselves for one pull. */
  readonly perRegistry?: number;
  /**
   * To registries that did not answer promptly when they were asked last, or were never asked, all together. Default
   * half of all: names of images are free text, and hosts that swallow requests must not keep the others waiting.
   */
  readonly unproven?: number;
}

/** What is asked, for whom. */
export interface TurnQuestion {
  /** Whose question it is: namespaces are served in turn. */
  readonly namespace: string;
  readonly registry: string;
  /** Of the image: one at a time has a turn for it. */
  readonly name: string;
}

/** The right to send requests to one registry; disposed of when they have ended. */
export interface Turn extends Disposable {
  /** Tells whether the registry answered promptly. Not called where it was not asked. */
  asked(isPrompt: boolean): void;
}

interface Waiter extends TurnQuestion {
  readonly give: (turn: Turn | undefined) => void;
}

/** Registries that are remembered to be prompt. Beyond it the one asked longest ago is forgotten, which costs it speed only. */
const MAX_PROVEN = 1_000;

/** So many turns, of which a namespace gets as many as it leaves free: alone half of them, and there is one for a newcomer. */
class Share {
  readonly #limit: number;
  readonly #byNamespace = new Map<string, number>();
  running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  of(namespace: string): number {
    return this.#byNamespace.get(namespace) ?? 0;
  }

  has(namespace: string): boolean {
    return this.of(namespace) < this.#limit - this.running;
  }

  count(namespace: string, change: number): void {
    this.running += change;
    count(this.#byNamespace, namespace, change);
  }
}

/** Namespaces take turns, and so do the registries of each; within a registry the first that come are served first. */
export class RequestTurns {
  readonly #perRegistry: number;
  readonly #all: Share;
  readonly #unproven: Share;
  /** By namespace and registry, in the order in which they are served next. Nothing empty stays. */
  readonly #waiting = new Map<string, Map<string, Waiter[]>>();
  readonly #running = new Map<string, number>();
  readonly #names = new Set<string>();
  readonly #proven = new RecentMap<string, true>(MAX_PROVEN);
  #closed = false;

  constructor({ total = 16, perRegistry = 4, unproven = Math.ceil(total / 2) }: RequestTurnsOptions = {}) {
    this.#perRegistry = perRegistry;
    this.#all = new Share(total);
    this.#unproven = new Share(unproven);
  }

  /** Waits for a turn; `undefined` when it is closed meanwhile. Whoever waits is bounded by the caller. */
  take(question: TurnQuestion): Promise<Turn | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    // Of those that wait nobody may go: that changes only when a turn ends.
    if (this.#mayRun(question) && !this.#names.has(question.name))
      return Promise.resolve(this.#start(question));
    const { promise, resolve } = Promise.withResolvers<Turn | undefined>();
    const { namespace, registry } = question;
    const ofNamespace = this.#waiting.get(namespace) ?? new Map<string, Waiter[]>();
    this.#waiting.set(namespace, ofNamespace);
    const waiters = ofNamespace.get(registry) ?? [];
    ofNamespace.set(registry, waiters);
    waiters.push({ ...question, give: resolve });
    return promise;
  }

  /** Nobody gets a turn any more. Turns that were taken go on. */
  close(): void {
    this.#closed = true;
    const waiting = [...this.#waiting.values()].flatMap((ofNamespace) => [...ofNamespace.values()].flat());
    this.#waiting.clear();
    for (const { give } of waiting) give(undefined);
  }

  #serve(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      const { namespace, registry } = next;
      const ofNamespace = this.#waiting.get(namespace) ?? new Map<string, Waiter[]>();
      const others = (ofNamespace.get(registry) ?? []).filter((waiter) => waiter !== next);
      this.#waiting.delete(namespace);
      ofNamespace.delete(registry);
      if (others.length > 0) ofNamespace.set(registry, others);
      if (ofNamespace.size > 0) this.#waiting.set(namespace, ofNamespace);
      next.give(this.#start(next));
    }
  }

  /** The namespace with the fewest requests under way comes first; equals take turns. */
  #next(): Waiter | undefined {
    let first: Waiter | undefined;
    for (const [namespace, ofNamespace] of this.#waiting) {
      if (first !== undefined && this.#all.of(namespace) >= this.#all.of(first.namespace)) continue;
      if (this.#all.has(namespace)) first = this.#nextOf(namespace, ofNamespace) ?? first;
    }
    return first;
  }

  #nextOf(namespace: string, ofNamespace: ReadonlyMap<string, readonly Waiter[]>): Waiter | undefined {
    for (const [registry, waiters] of ofNamespace) {
      if (!this.#mayRun({ namespace, registry })) continue;
      const next = waiters.find(({ name }) => !this.#names.has(name));
      if (next !== undefined) return next;
    }
    return undefined;
  }

  #mayRun({ namespace, registry }: Omit<TurnQuestion, "name">): boolean {
    if ((this.#running.get(registry) ?? 0) >= this.#perRegistry || !this.#all.has(namespace)) return false;
    return this.#unproven.has(namespace) || this.#proven.get(registry) === true;
  }

  #start({ namespace, registry, name }: TurnQuestion): Turn {
    const shares = this.#proven.get(registry) === true ? [this.#all] : [this.#all, this.#unproven];
    const settle = (change: number): void => {
      count(this.#running, registry, change);
      for (const share of shares) share.count(namespace, change);
    };
    settle(1);
    this.#names.add(name);
    let ended = false;
    return {
      asked: (isPrompt) => {
        if (isPrompt) this.#proven.set(registry, true);
        else this.#proven.delete(registry);
      },
      [Symbol.dispose]: () => {
        if (ended) return;
        ended = true;
        settle(-1);
        this.#names.delete(name);
        this.#serve();
      },
    };
  }
}

/** Counts by key; nothing is kept of what is zero. */
export function count(counts: Map<string, number>, key: string, change: number): void {
  const now = (counts.get(key) ?? 0) + change;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
}
