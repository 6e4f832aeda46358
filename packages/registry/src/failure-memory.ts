/** Failures, and when to ask again: the counterpart of the known facts. */
import type { RegistryError, RegistryFailureKind } from "./failure.ts";
import { RecentMap } from "./recent-map.ts";

/** A failure that is valid for a while. Times are ms of a clock that never goes back. */
export interface StandingFailure {
  readonly error: RegistryError;
  /** When it was recorded. */
  readonly since: number;
  /** End of its validity; infinite for a failure that a retry cannot change. */
  readonly until: number;
  /** Failures in a row, at growing intervals. */
  readonly count: number;
}

interface Wait {
  readonly firstMs: number;
  readonly mostMs: number;
}

/** For definite answers: they change when a user pushes an image or an administrator grants a right. */
const ANSWERED: Wait = { firstMs: 60_000, mostMs: 600_000 };
/** For missing answers: the cause may end by itself. */
const UNANSWERED: Wait = { firstMs: 5_000, mostMs: 300_000 };
/** After a 429 that names no time. */
const RATE_LIMITED: Wait = { firstMs: 30_000, mostMs: 30_000 };
/** The wait comes with the failure. */
const SUSPENDED: Wait = { firstMs: 1_000, mostMs: 1_000 };
const NEVER: Wait = { firstMs: Number.POSITIVE_INFINITY, mostMs: Number.POSITIVE_INFINITY };
/** The longest `Retry-After` that is obeyed. */
const MOST_RETRY_AFTER_MS = 3_600_000;
/** Adds up to this share to waits, so that keys that failed together are not retried together. */
const JITTER = 0.2;

const WAITS: Readonly<Record<RegistryFailureKind, Wait>> = {
  invalidName: NEVER,
  notAllowed: NEVER,
  notFound: ANSWERED,
  unauthorized: ANSWERED,
  forbidden: ANSWERED,
  noPlatform: ANSWERED,
  malformed: ANSWERED,
  unreachable: UNANSWERED,
  serverError: UNANSWERED,
  rateLimited: RATE_LIMITED,
  suspended: SUSPENDED,
  aborted: SUSPENDED,
};

/**
 * Failures by key, bounded: above `max` the least recently used is forgotten, and its image is asked for again.
 *
 * A failure is valid from its record until its wait is over. A failure that follows soon (before another such wait has
 * passed) waits twice as long, up to the maximum. A later one counts as the first again.
 */
export class FailureMemory {
  readonly #failures: RecentMap<string, StandingFailure>;
  readonly #random: () => number;

  constructor(max: number, random: () => number) {
    this.#failures = new RecentMap(max);
    this.#random = random;
  }

  /** Failures held. */
  get size(): number {
    return this.#failures.size;
  }

  /** @param leastMs the shortest validity, besides its kind and `Retry-After`. */
  record(key: string, error: RegistryError, now: number, leastMs = 0): StandingFailure {
    const last = this.#recent(key, now);
    // The registry was not asked, so this is not one more failure in a row.
    const count = (last?.count ?? 0) + (error.kind === "suspended" ? 0 : 1);
    const waitMs = Math.max(leastMs, this.#waitOf(error, count));
    const failure = { error, since: now, until: now + waitMs, count };
    this.#failures.set(key, failure);
    return failure;
  }

  /** Records the same failure for another key, with the same end. */
  share(key: string, failure: StandingFailure): void {
    this.#failures.set(key, failure);
  }

  /**
   * The valid failure. It also stays valid while a question that began before it was forgotten is in flight. So the
   * answer does not alternate between a failure and nothing, even if the next failure takes long.
   */
  standing(key: string, now: number, askedSince?: number): StandingFailure | undefined {
    const failure = this.#failures.get(key);
    if (failure === undefined) return undefined;
    const isAsked = askedSince !== undefined && askedSince < forgottenAt(failure);
    return now < failure.until || isAsked ? failure : undefined;
  }

  /** Call it after a success. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  #recent(key: string, now: number): StandingFailure | undefined {
    const failure = this.#failures.get(key);
    return failure !== undefined && now < forgottenAt(failure) ? failure : undefined;
  }

  #waitOf({ kind, retryAfterMs = 0 }: RegistryError, count: number): number {
    const { firstMs, mostMs } = WAITS[kind];
    const askedMs = Math.min(retryAfterMs, MOST_RETRY_AFTER_MS);
    const waitMs = Math.min(mostMs, firstMs * 2 ** Math.max(0, count - 1));
    return Math.max(waitMs, askedMs) * (1 + JITTER * this.#random());
  }
}

function forgottenAt({ since, until }: StandingFailure): number {
  return until + (until - since);
}
