/** One line in the log when requests begin to fail for all of the program, and one when they succeed again. */
import { type ApiError, describeRequest } from "@berth/kube";
import type { Clock } from "../clock.ts";
import type { Logger } from "../log.ts";
import { REFUSED_RETRY_CAP_MS, type RefusedKind } from "./request-gates.ts";

/** Shorter outages are not logged. Outages that begin within this time share one line. Milliseconds. */
const TELL_AFTER_MS = 1_000;
/** Kinds of requests named in a line. */
const MOST_NAMED = 32;

interface Unreachable {
  readonly since: number;
  requests: number;
  isTold: boolean;
}

export interface OutageLogOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** See `GuardOptions`. */
  readonly grantOf?: (refusal: ApiError) => string | undefined;
}

/** Logs refused kinds of requests, and a server that cannot be reached. */
export class OutageLog {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #grantOf: (refusal: ApiError) => string | undefined;
  /** Refused kinds, and whether each has been logged. */
  readonly #refused = new Map<RefusedKind, boolean>();
  /** Kinds that were logged as refused and work again; this is not logged yet. */
  #taken: RefusedKind[] = [];
  #unreachable: Unreachable | undefined;
  /** The line about newly refused kinds is scheduled. */
  #isBegun = false;
  #over: Disposable | undefined;

  constructor({ clock, log, grantOf = () => undefined }: OutageLogOptions) {
    this.#clock = clock;
    this.#log = log;
    this.#grantOf = grantOf;
  }

  refused(kind: RefusedKind): void {
    this.#refused.set(kind, false);
    if (this.#isBegun) return;
    this.#isBegun = true;
    this.#clock.schedule(TELL_AFTER_MS, () => this.#tellRefused());
  }

  /** Logs all such kinds in one line. Kinds that stay refused delay it only until each has been tried. */
  taken(kind: RefusedKind): void {
    const isTold = this.#refused.get(kind) === true;
    this.#refused.delete(kind);
    if (isTold) this.#taken.push(kind);
    if (this.#taken.length === 0) return;
    this.#over?.[Symbol.dispose]();
    const waitMs = this.#refused.size === 0 ? 0 : REFUSED_RETRY_CAP_MS;
    this.#over = this.#clock.schedule(waitMs, () => this.#tellTaken());
  }

  /** No connection could be made. */
  unreachable(error: ApiError): void {
    if (this.#unreachable !== undefined) {
      this.#unreachable.requests++;
      return;
    }
    const begun = { since: this.#clock.monotonic(), requests: 1, isTold: false };
    this.#unreachable = begun;
    this.#clock.schedule(TELL_AFTER_MS, () => {
      if (this.#unreachable !== begun) return;
      begun.isTold = true;
      this.#log.warn("the API server cannot be reached; trying again", { error: error.message });
    });
  }

  /** The server has answered. */
  reached(): void {
    const over = this.#unreachable;
    if (over === undefined) return;
    this.#unreachable = undefined;
    const { requests, since } = over;
    if (over.isTold)
      this.#log.info("the API server can be reached again", { requests, seconds: this.#secondsSince(since) });
  }

  #tellRefused(): void {
    this.#isBegun = false;
    const kinds = [...this.#refused].filter(([, isTold]) => !isTold).map(([kind]) => kind);
    if (kinds[0] === undefined) return;
    for (const kind of kinds) this.#refused.set(kind, true);
    const grants = kinds.flatMap(({ refusal }) => this.#grantOf(refusal) ?? []);
    this.#log.warn("the API server refuses requests; one of each kind is tried again, others wait for it", {
      ...named(kinds),
      atMostSeconds: REFUSED_RETRY_CAP_MS / 1000,
      error: kinds[0].refusal.message,
      ...(grants.length > 0 && { grant: grants.join("; ") }),
    });
  }

  #tellTaken(): void {
    this.#over = undefined;
    const kinds = this.#taken;
    this.#taken = [];
    const still = this.#refused.size;
    this.#log.info("the API server takes requests again", {
      ...named(kinds),
      requests: kinds.reduce((sum, { affected }) => sum + affected, 0),
      seconds: this.#secondsSince(Math.min(...kinds.map(({ since }) => since))),
      ...(still > 0 && { stillRefused: still }),
    });
  }

  #secondsSince(at: number): number {
    return Math.round((this.#clock.monotonic() - at) / 100) / 10;
  }
}

function named(kinds: readonly RefusedKind[]): { readonly kinds: number; readonly first: readonly string[] } {
  const first = kinds.slice(0, MOST_NAMED).map(({ refusal: { request } }) => {
    const { name: _name, ...kind } = request;
    return describeRequest(kind);
  });
  return { kinds: kinds.length, first };
}
