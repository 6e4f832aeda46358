/** What failed, and when it is worth asking again: the negative half of what is known of images. */
import type { RegistryError, RegistryFailureKind } from "./failure.ts";
import { RecentMap } from "./recent-map.ts";

/** A failure that stands for a while. Times are ms of a clock that never goes back. */
export interface StandingFailure {
  readonly error: RegistryError;
  /** When it was told. */
  readonly since: number;
  /** Until when it stands; infinite for what asking again cannot change. */
  readonly until: number;
  /** In a row, at ever longer intervals. */
  readonly count: number;
}

interface Wait {
  readonly firstMs: number;
  readonly mostMs: number;
}

/** Of what the registry said for certain: it changes when somebody pushes an image or grants a right. */
const ANSWERED: Wait = { firstMs: 60_000, mostMs: 600_000 };
/** Of what it did not manage to say: it changes by itself. */
const UNANSWERED: Wait = { firstMs: 5_000, mostMs: 300_000 };
/** After a 429 that names no time. */
const RATE_LIMITED: Wait = { firstMs: 30_000, mostMs: 30_000 };
/** The length of the rest comes with the failure. */
const SUSPENDED: Wait = { firstMs: 1_000, mostMs: 1_000 };
const NEVER: Wait = { firstMs: Number.POSITIVE_INFINITY, mostMs: Number.POSITIVE_INFINITY };
/** A registry that asks for more is asked again all the same. */
const MOST_RETRY_AFTER_MS = 3_600_000;
/** Waits are longer by up to this share, so that what failed together is not asked again together. Never shorter. */
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
 * Failures by key, bounded: beyond `max` the one asked for longest ago is forgotten, and what it was about is asked again.
 *
 * A failure stands from when it is told until its wait is over. One that follows it soon (before another such wait has
 * passed) waits twice as long, up to the most; later than that, it is the first again.
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

  /** @param leastMs it stands at least this long, beside what its kind and `Retry-After` say. */
  record(key: string, error: RegistryError, now: number, leastMs = 0): StandingFailure {
    const last = this.#recent(key, now);
    // Nobody was asked, so it is one failure less in the row than it seems.
    const count = (last?.count ?? 0) + (error.kind === "suspended" ? 0 : 1);
    const waitMs = Math.max(leastMs, this.#waitOf(error, count));
    const failure = { error, since: now, until: now + waitMs, count };
    this.#failures.set(key, failure);
    return failure;
  }

  /** The same failure for somebody else, for as long as it stands. */
  share(key: string, failure: StandingFailure): void {
    this.#failures.set(key, failure);
  }

  /**
   * The failure that stands. While somebody asks again, and has done so since before it was forgotten, it goes on standing:
   * an answer does not flap between a failure and nothing at all, however long the registry takes to fail once more.
   */
  standing(key: string, now: number, askedSince?: number): StandingFailure | undefined {
    const failure = this.#failures.get(key);
    if (failure === undefined) return undefined;
    const isAsked = askedSince !== undefined && askedSince < forgottenAt(failure);
    return now < failure.until || isAsked ? failure : undefined;
  }

  /** It works again. */
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
