/** Leaves registries alone that do not answer, or that asked for it. */
import type { RegistryError, RegistryFailureKind } from "./failure.ts";
import { RecentMap } from "./recent-map.ts";

/** How patient it is. */
export interface RegistryBreakerOptions {
  /** Failures in a row, of two namespaces at least, before a registry is left alone. Default 5. */
  readonly failures?: number;
  /** For how long then, ms. Default 30,000. Also after a 429 that names no time. */
  readonly restMs?: number;
  /** The longest that a `Retry-After` is taken at its word, ms. Default an hour. */
  readonly mostRestMs?: number;
  /** Registries, and limits, remembered. Default 1,000; beyond it the one wanted longest ago is forgotten, and so asked. */
  readonly maxRegistries?: number;
}

/** Who asks a registry. */
export interface RegistryAsker {
  readonly registry: string;
  readonly namespace: string;
  /** The same text for the same credentials. */
  readonly credential: string;
}

/** May it be asked; and if not, how long it is left alone, ms, and why. */
export type Admission =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly waitMs: number; readonly why: "failing" | "rateLimited" };

interface Trouble {
  readonly failures: number;
  /** Whom it failed; two are enough to know. */
  readonly namespaces: readonly string[];
  /** On the clock of the caller; absent while it may be asked. */
  readonly restsUntil: number | undefined;
  probing: boolean;
}

/** How long others wait while one question probes, ms: about what an answer takes. */
const PROBE_WAIT_MS = 1_000;
/** One namespace may name images that break connections; those of two, and no answer in between, say that it is the registry. */
const WITNESSES = 2;

/**
 * The registry's fault. `malformed` is none: whoever may push an image can make one, and five of them would close a
 * registry for everybody else. Nor is a 5xx: it may be of one path, such as that of a proxy whose upstream is away. Nor
 * is what another server does that the registry led to.
 */
const FAULTS: ReadonlySet<RegistryFailureKind> = new Set(["unreachable"]);

/**
 * One circuit breaker for each registry, and one limit for each credential that a registry limited.
 *
 * - Closed while questions are answered, also with a no. After `failures` in a row that are the registry's fault, and that
 *   two namespaces have seen, it opens for `restMs`.
 * - Then one question is let through. Its answer closes the breaker, its failure opens it again.
 * - A 429 is an answer. Questions of the same namespace with the same credential wait for as long as the registry asked.
 *
 * Every question that was allowed must be `settled`. Times are ms of any clock that never goes back.
 */
export class RegistryBreakers {
  readonly #failures: number;
  readonly #restMs: number;
  readonly #mostRestMs: number;
  /** Only registries in trouble. */
  readonly #troubles: RecentMap<string, Trouble>;
  /** Until when, by registry, namespace and credential. */
  readonly #limits: RecentMap<string, number>;

  constructor(options: RegistryBreakerOptions = {}) {
    const { failures = 5, restMs = 30_000, mostRestMs = 3_600_000, maxRegistries = 1_000 } = options;
    this.#failures = failures;
    this.#restMs = restMs;
    this.#mostRestMs = mostRestMs;
    this.#troubles = new RecentMap(maxRegistries);
    this.#limits = new RecentMap(maxRegistries);
  }

  /** Whether it is open for all. Takes no right to probe. */
  check(registry: string, now: number): Admission {
    const trouble = this.#troubles.get(registry);
    if (trouble?.restsUntil === undefined) return { allowed: true };
    const waitMs = Math.max(trouble.restsUntil - now, trouble.probing ? PROBE_WAIT_MS : 0);
    return waitMs > 0 ? { allowed: false, waitMs, why: "failing" } : { allowed: true };
  }

  /** Asks for a question that is put now when it is allowed. */
  admit(asker: RegistryAsker, now: number): Admission {
    const limitedMs = (this.#limits.get(limitKey(asker)) ?? now) - now;
    if (limitedMs > 0) return { allowed: false, waitMs: limitedMs, why: "rateLimited" };
    const admission = this.check(asker.registry, now);
    const trouble = this.#troubles.get(asker.registry);
    if (admission.allowed && trouble?.restsUntil !== undefined) trouble.probing = true;
    return admission;
  }

  /** Tells what became of a question: an answer (`undefined`), or how it failed. */
  settle(asker: RegistryAsker, failure: RegistryError | undefined, now: number): void {
    const { registry } = asker;
    if (failure?.kind === "rateLimited") {
      const key = limitKey(asker);
      const restMs = Math.min(failure.retryAfterMs ?? this.#restMs, this.#mostRestMs);
      this.#limits.set(key, Math.max(now + restMs, this.#limits.get(key) ?? now));
    }
    const trouble = this.#troubles.get(registry);
    if (failure?.kind === "aborted" || failure?.elsewhere === true) {
      if (trouble !== undefined) trouble.probing = false;
    } else if (failure !== undefined && FAULTS.has(failure.kind)) {
      this.#fail(asker, trouble, now);
    } else this.#troubles.delete(registry);
  }

  #fail({ registry, namespace }: RegistryAsker, trouble: Trouble | undefined, now: number): void {
    const resting = trouble?.restsUntil !== undefined && now < trouble.restsUntil;
    // A question from before it opened says nothing new.
    if (resting) return;
    const failures = (trouble?.failures ?? 0) + 1;
    const namespaces = [...new Set([...(trouble?.namespaces ?? []), namespace])].slice(0, WITNESSES);
    const opens =
      trouble?.restsUntil !== undefined || (failures >= this.#failures && namespaces.length >= WITNESSES);
    const restsUntil = opens ? now + this.#restMs : undefined;
    this.#troubles.set(registry, { failures, namespaces, restsUntil, probing: false });
  }
}

function limitKey({ registry, namespace, credential }: RegistryAsker): string {
  return JSON.stringify([registry, namespace, credential]);
}
