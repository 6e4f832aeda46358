/** Limits and orders requests, so that no namespace or registry delays others and no server is overloaded. */

import { RecentMap } from "./recent-map.ts";

/** Limits of simultaneous requests. */
export interface RequestTurnsOptions {
  /** In all. Default 16. */
  readonly total?: number;
  /** To one registry. Default 4: the limit of container runtimes for one pull. */
  readonly perRegistry?: number;
  /**
   * To all registries together that answered late or not at all last time, or were never asked. Default half of all.
   * Image names are free text, and hosts that swallow requests must not block other registries.
   */
  readonly unproven?: number;
}

/** A question that needs a turn. */
export interface TurnQuestion {
  /** The namespace that asks. Namespaces are served in turn. */
  readonly namespace: string;
  readonly registry: string;
  /** The image. Only one turn at a time is for it. */
  readonly name: string;
}

/** The right to send requests to one registry. Dispose of it when they have ended. */
export interface Turn extends Disposable {
  /** Reports whether the registry answered promptly. Not called if the registry was not asked. */
  asked(isPrompt: boolean): void;
}

interface Waiter extends TurnQuestion {
  readonly give: (turn: Turn | undefined) => void;
}

/** Registries remembered as prompt. Above it the least recently used is forgotten and only loses speed. */
const MAX_PROVEN = 1_000;

/** A share of the turns. A namespace gets as many as it leaves free, so one alone leaves half for others. */
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

/** Namespaces take turns, and so do the registries of each. One registry's questions go first in, first out. */
export class RequestTurns {
  readonly #perRegistry: number;
  readonly #all: Share;
  readonly #unproven: Share;
  /** By namespace and registry, in the order of service. Empty entries are removed. */
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

  /** Waits for a turn; `undefined` when it is closed meanwhile. The caller bounds the number of waiters. */
  take(question: TurnQuestion): Promise<Turn | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    // No present waiter may run: that changes only when a turn ends.
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

  /** Gives no more turns. Turns in use go on. */
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

  /** The namespace with the fewest requests in flight comes first; equal ones take turns. */
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

/** Counts by key. Keys with a count of zero are removed. */
export function count(counts: Map<string, number>, key: string, change: number): void {
  const now = (counts.get(key) ?? 0) + change;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
}
