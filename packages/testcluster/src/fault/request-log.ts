import type { Conditions } from "./conditions.ts";
import type { ObservedRequest } from "./interceptor.ts";
import { matchesRequest, type RequestMatch } from "./match.ts";

/** A request in the log of the proxy. */
export interface LoggedRequest extends ObservedRequest {
  /**
   * The status the client was given; `cut`: none, the proxy or the server broke off before the head; `gone`: the client
   * left first; `undefined` while undecided. A watch has its status from the moment it is open.
   */
  readonly status: number | "cut" | "gone" | undefined;
}

interface Tally {
  readonly match: RequestMatch;
  seen: number;
}

/** The last requests, and who waits for more of them. */
export class RequestLog {
  readonly #limit: number;
  readonly #conditions: Conditions;
  readonly #entries: LoggedRequest[] = [];
  readonly #tallies: Set<Tally> = new Set();

  constructor(limit: number, conditions: Conditions) {
    this.#limit = limit;
    this.#conditions = conditions;
  }

  get entries(): readonly LoggedRequest[] {
    return this.#entries;
  }

  /** @returns how to note the outcome; only the first call counts. */
  add(request: ObservedRequest): (status: NonNullable<LoggedRequest["status"]>) => void {
    const entry: ObservedRequest & { status: LoggedRequest["status"] } = { ...request, status: undefined };
    this.#entries.push(entry);
    if (this.#entries.length > this.#limit) this.#entries.shift();
    for (const tally of this.#tallies) if (matchesRequest(tally.match, request)) tally.seen += 1;
    this.#conditions.changed();
    return (status) => {
      entry.status ??= status;
      this.#conditions.changed();
    };
  }

  count(match: RequestMatch): number {
    return this.#entries.filter((entry) => matchesRequest(match, entry)).length;
  }

  /** Counts on by itself, so that waiting does not read the whole log at each request. */
  async until(match: RequestMatch, count: number): Promise<void> {
    const tally: Tally = { match, seen: this.count(match) };
    this.#tallies.add(tally);
    try {
      await this.#conditions.until(() => tally.seen >= count);
    } finally {
      this.#tallies.delete(tally);
    }
  }
}
