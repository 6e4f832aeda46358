/** Leaves registries alone that do not answer, or that asked for it. */
import type { RegistryError, RegistryFailureKind } from "./failure.ts";
import { RecentMap } from "./recent-map.ts";

/** How patient it is. */
export interface RegistryBreakerOptions {
  /** Failures in a row before a registry is left alone. Default 5. */
  readonly failures?: number;
  /** For how long then, ms. Default 30,000. Also after a 429 that names no time. */
  readonly restMs?: number;
  /** The longest that a `Retry-After` is taken at its word, ms. Default an hour. */
  readonly mostRestMs?: number;
  /** Registries remembered. Default 1,000; beyond it the one wanted longest ago is forgotten, and so asked. */
  readonly maxRegistries?: number;
}

/** May it be asked; and if not, how long it is left alone, ms, and why. */
export type Admission =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly waitMs: number; readonly why: "failing" | "rateLimited" };

interface Trouble {
  failures: number;
  /** On the clock of the caller; absent while it may be asked. */
  restsUntil: number | undefined;
  why: "failing" | "rateLimited";
  probing: boolean;
}

/** How long others wait while one question probes, ms: about what an answer takes. */
const PROBE_WAIT_MS = 1_000;

/**
 * The registry's fault. `malformed` is none: whoever may push an image can make one, and five of them would close a
 * registry for everybody else.
 */
const FAULTS: ReadonlySet<RegistryFailureKind> = new Set(["unreachable", "serverError"]);

/**
 * One circuit breaker for each registry.
 *
 * - Closed while questions are answered, also with a no. After `failures` in a row that are the registry's fault it
 *   opens for `restMs`; after a 429 at once, for the time that the registry asked for.
 * - Then one question is let through. Its answer closes the breaker, its failure opens it again.
 *
 * Every question that was allowed must be `settled`. Times are ms of any clock that never goes back.
 */
export class RegistryBreakers {
  readonly #failures: number;
  readonly #restMs: number;
  readonly #mostRestMs: number;
  /** Only registries in trouble. */
  readonly #troubles: RecentMap<string, Trouble>;

  constructor(options: RegistryBreakerOptions = {}) {
    this.#failures = options.failures ?? 5;
    this.#restMs = options.restMs ?? 30_000;
    this.#mostRestMs = options.mostRestMs ?? 3_600_000;
    this.#troubles = new RecentMap(options.maxRegistries ?? 1_000);
  }

  /** Asks without taking the right to probe. */
  check(registry: string, now: number): Admission {
    const trouble = this.#troubles.get(registry);
    if (trouble?.restsUntil === undefined) return { allowed: true };
    if (now < trouble.restsUntil) {
      return { allowed: false, waitMs: trouble.restsUntil - now, why: trouble.why };
    }
    return trouble.probing ? { allowed: false, waitMs: PROBE_WAIT_MS, why: trouble.why } : { allowed: true };
  }

  /** Asks for a question that is put now when it is allowed. */
  admit(registry: string, now: number): Admission {
    const admission = this.check(registry, now);
    const trouble = this.#troubles.get(registry);
    if (admission.allowed && trouble?.restsUntil !== undefined) trouble.probing = true;
    return admission;
  }

  /** Tells what became of a question: an answer (`undefined`), or how it failed. */
  settle(registry: string, failure: RegistryError | undefined, now: number): void {
    const trouble = this.#troubles.get(registry);
    if (failure?.kind === "aborted") {
      if (trouble !== undefined) trouble.probing = false;
    } else if (failure?.kind === "rateLimited") {
      const restMs = Math.min(failure.retryAfterMs ?? this.#restMs, this.#mostRestMs);
      const until = Math.max(now + restMs, trouble?.restsUntil ?? now);
      this.#troubles.set(registry, { failures: 0, restsUntil: until, why: "rateLimited", probing: false });
    } else if (failure !== undefined && FAULTS.has(failure.kind)) {
      this.#fail(registry, trouble, now);
    } else if (trouble?.why !== "rateLimited" || now >= (trouble.restsUntil ?? now)) {
      // An answer to a question from before a 429 does not shorten the rest that the registry asked for.
      this.#troubles.delete(registry);
    }
  }

  #fail(registry: string, trouble: Trouble | undefined, now: number): void {
    const resting = trouble?.restsUntil !== undefined && now < trouble.restsUntil;
    // A question from before it opened says nothing new.
    if (resting) return;
    const failures = (trouble?.failures ?? 0) + 1;
    const opens = trouble?.restsUntil !== undefined || failures >= this.#failures;
    const restsUntil = opens ? now + this.#restMs : undefined;
    this.#troubles.set(registry, { failures, restsUntil, why: "failing", probing: false });
  }
}
