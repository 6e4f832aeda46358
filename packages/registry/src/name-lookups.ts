/** Resolves host names. Names that do not resolve must not delay the process. */
import { type LookupAddress, type LookupOptions, lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { performance } from "node:perf_hooks";
import { RecentMap } from "./recent-map.ts";

type Done = Parameters<LookupFunction>[2];
type Resolver = (
  hostname: string,
  options: LookupOptions,
  done: (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void,
) => void;

interface Waiter {
  readonly key: string;
  readonly zone: string;
  readonly start: () => void;
}

/** The last result of a name. */
interface Known {
  readonly address: string | LookupAddress[];
  readonly family: number | undefined;
  /** On a clock that never goes back, ms. */
  readonly at: number;
}

/**
 * Node resolves names on the four threads that also read its files. A name with silent servers blocks one for up to
 * half a minute (resolv.conf(5): 5 s, 2 attempts, for each server and search domain). Image names are free text, so
 * names that did not resolve last time may use two threads. All names together may use three, and one stays free. Names
 * of one zone share one thread, because one zone with silent servers can have any number of hosts.
 */
const MAX_LOOKUPS = 3;
const MAX_UNPROVEN = 2;
/** Names remembered as resolved. Above it the least recently used counts as new again. */
const MAX_KNOWN = 1_000;
/** While no thread is free, a name keeps its last result for this long. Milliseconds. */
const KNOWN_MS = 600_000;

export class NameLookups {
  readonly #patienceMs: number;
  readonly #resolve: Resolver;
  readonly #known: RecentMap<string, Known> = new RecentMap(MAX_KNOWN);
  readonly #waiting = new Set<Waiter>();
  /** Zones with a lookup in flight. */
  readonly #zones = new Set<string>();
  #unproven = 0;

  /** @param patienceMs a name that waits longer for its turn fails like a temporary lookup error. */
  constructor(patienceMs: number, resolve: Resolver = lookup) {
    this.#patienceMs = patienceMs;
    this.#resolve = resolve;
  }

  /** For `net.connect`. */
  readonly lookup: LookupFunction = (hostname, options, done) => {
    const key = JSON.stringify([hostname, options.family, options.all]);
    const zone = hostname.split(".").slice(-2).join(".");
    const known = this.#known.get(key);
    if (!this.#mayStart({ key, zone }) && known !== undefined && performance.now() - known.at < KNOWN_MS) {
      queueMicrotask(() => done(null, known.address, known.family));
      return;
    }
    const giveUp = (): void => {
      this.#waiting.delete(waiter);
      done(Object.assign(new Error("no turn to resolve it"), { code: "EAI_AGAIN" }), "");
    };
    const timer = setTimeout(giveUp, this.#patienceMs);
    const start = (): void => {
      clearTimeout(timer);
      this.#start(waiter, hostname, options, done);
    };
    const waiter: Waiter = { key, zone, start };
    this.#waiting.add(waiter);
    this.#serve();
  };

  #mayStart({ key, zone }: Pick<Waiter, "key" | "zone">): boolean {
    if (this.#zones.size >= MAX_LOOKUPS || this.#zones.has(zone)) return false;
    return this.#unproven < MAX_UNPROVEN || this.#known.get(key) !== undefined;
  }

  #serve(): void {
    for (const waiter of this.#waiting) {
      if (!this.#mayStart(waiter)) continue;
      this.#waiting.delete(waiter);
      waiter.start();
    }
  }

  #start({ key, zone }: Waiter, hostname: string, options: LookupOptions, done: Done): void {
    const unproven = this.#known.get(key) === undefined ? 1 : 0;
    this.#zones.add(zone);
    this.#unproven += unproven;
    this.#resolve(hostname, options, (error, address, family) => {
      this.#zones.delete(zone);
      this.#unproven -= unproven;
      if (error === null) this.#known.set(key, { address, family, at: performance.now() });
      else this.#known.delete(key);
      done(error, address, family);
      this.#serve();
    });
  }
}
