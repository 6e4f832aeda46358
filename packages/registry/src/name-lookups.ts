/** Resolves names of hosts without letting those that do not resolve hold up the process. */
import { type LookupAddress, type LookupOptions, lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { RecentMap } from "./recent-map.ts";

type Done = Parameters<LookupFunction>[2];
type Resolver = (
  hostname: string,
  options: LookupOptions,
  done: (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void,
) => void;

interface Waiter {
  readonly hostname: string;
  readonly start: () => void;
}

/**
 * Node resolves names on the four threads that also read its files, and a name whose servers are silent holds one for
 * up to half a minute (resolv.conf(5): 5 s, 2 attempts, for each server and search domain). Names of images are free
 * text, so those that have not resolved before may hold two, all together three, and one is always left.
 */
const MAX_LOOKUPS = 3;
const MAX_UNPROVEN = 2;
/** Hosts remembered to have resolved. Beyond it the one asked longest ago waits with the new ones. */
const MAX_PROVEN = 1_000;

export class NameLookups {
  readonly #patienceMs: number;
  readonly #resolve: Resolver;
  readonly #proven: RecentMap<string, true> = new RecentMap(MAX_PROVEN);
  readonly #waiting = new Set<Waiter>();
  #running = 0;
  #unproven = 0;

  /** @param patienceMs a name that has not had its turn by then fails, as one that does not resolve at the moment. */
  constructor(patienceMs: number, resolve: Resolver = lookup) {
    this.#patienceMs = patienceMs;
    this.#resolve = resolve;
  }

  /** For `net.connect`. */
  readonly lookup: LookupFunction = (hostname, options, done) => {
    const giveUp = (): void => {
      this.#waiting.delete(waiter);
      done(Object.assign(new Error("no turn to resolve it"), { code: "EAI_AGAIN" }), "");
    };
    const timer = setTimeout(giveUp, this.#patienceMs);
    const start = (): void => {
      clearTimeout(timer);
      this.#start(hostname, options, done);
    };
    const waiter = { hostname, start };
    this.#waiting.add(waiter);
    this.#serve();
  };

  #serve(): void {
    for (const waiter of this.#waiting) {
      if (this.#running >= MAX_LOOKUPS) return;
      if (this.#unproven >= MAX_UNPROVEN && this.#proven.get(waiter.hostname) === undefined) continue;
      this.#waiting.delete(waiter);
      waiter.start();
    }
  }

  #start(hostname: string, options: LookupOptions, done: Done): void {
    const unproven = this.#proven.get(hostname) === undefined ? 1 : 0;
    this.#running += 1;
    this.#unproven += unproven;
    this.#resolve(hostname, options, (error, address, family) => {
      this.#running -= 1;
      this.#unproven -= unproven;
      if (error === null) this.#proven.set(hostname, true);
      done(error, address, family);
      this.#serve();
    });
  }
}
