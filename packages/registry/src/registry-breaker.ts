/** Pauses questions to registries that do not answer, or that asked for a pause. */
import type { RegistryError, RegistryFailureKind } from "./failure.ts";
import { RecentMap } from "./recent-map.ts";

/** Limits of the breakers. */
export interface RegistryBreakerOptions {
  /** Failures in a row, of two namespaces at least, before a registry rests. Default 5. */
  readonly failures?: number;
  /** Length of the rest, ms. Default 30,000. Also after a 429 that names no time. */
  readonly restMs?: number;
  /** The longest `Retry-After` that is obeyed, ms. Default an hour. */
  readonly mostRestMs?: number;
  /** Registries and limits remembered. Default 1,000; above it the least recently used is forgotten. */
  readonly maxRegistries?: number;
}

/** The asker of a registry. */
export interface RegistryAsker {
  readonly registry: string;
  readonly namespace: string;
  /** The same text for the same credentials. */
  readonly credential: string;
}

/** Whether it may be asked. If not, the time to wait, ms, and why. */
export type Admission =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly waitMs: number; readonly why: "failing" | "rateLimited" };

interface Trouble {
  readonly failures: number;
  /** Namespaces that saw failures; two are enough. */
  readonly namespaces: readonly string[];
  /** End of the rest on the clock of the caller; absent while it may be asked. */
  readonly restsUntil: number | undefined;
  probing: boolean;
}

/** Wait of other questions while one probes, ms: about the time of an answer. */
const PROBE_WAIT_MS = 1_000;
/** One namespace may name images that break connections. Failures of two without a success show a real fault. */
const WITNESSES = 2;

/**
 * Failures that are the registry's fault. `malformed` is not: any user who can push an image can cause it, and five
 * such images would block the registry for all. A 5xx is not: it may concern one path, such as that of a proxy without
 * its upstream. Failures of other servers that the registry led to are not.
 */
const FAULTS: ReadonlySet<RegistryFailureKind> = new Set(["unreachable"]);

/**
 * One circuit breaker for each registry, and one limit for each credential that a registry limited.
 *
 * - Closed while questions get answers, including refusals. After `failures` faults in a row, seen by two namespaces,
 *   it opens for `restMs`.
 * - Then one question is allowed. Its answer closes the breaker, its failure opens it again.
 * - A 429 is an answer. The same namespace and credential wait for as long as the registry asked.
 *
 * Every allowed question must be passed to `settle`. Times are ms of any clock that never goes back.
 */
export class RegistryBreakers {
  readonly #failures: number;
  readonly #restMs: number;
  readonly #mostRestMs: number;
  /** Only registries with failures. */
  readonly #troubles: RecentMap<string, Trouble>;
  /** End of the limit, by registry, namespace and credential. */
  readonly #limits: RecentMap<string, number>;

  constructor(options: RegistryBreakerOptions = {}) {
    const { failures = 5, restMs = 30_000, mostRestMs = 3_600_000, maxRegistries = 1_000 } = options;
    this.#failures = failures;
    this.#restMs = restMs;
    this.#mostRestMs = mostRestMs;
    this.#troubles = new RecentMap(maxRegistries);
    this.#limits = new RecentMap(maxRegistries);
  }

  /** Whether it is open for all. Does not claim the probe. */
  check(registry: string, now: number): Admission {
    const trouble = this.#troubles.get(registry);
    if (trouble?.restsUntil === undefined) return { allowed: true };
    const waitMs = Math.max(trouble.restsUntil - now, trouble.probing ? PROBE_WAIT_MS : 0);
    return waitMs > 0 ? { allowed: false, waitMs, why: "failing" } : { allowed: true };
  }

  /** Checks a question that is put at once if allowed, and claims the probe. */
  admit(asker: RegistryAsker, now: number): Admission {
    const limitedMs = (this.#limits.get(limitKey(asker)) ?? now) - now;
    if (limitedMs > 0) return { allowed: false, waitMs: limitedMs, why: "rateLimited" };
    const admission = this.check(asker.registry, now);
    const trouble = this.#troubles.get(asker.registry);
    if (admission.allowed && trouble?.restsUntil !== undefined) trouble.probing = true;
    return admission;
  }

  /** Reports the result of a question: an answer (`undefined`), or its failure. */
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
    // A question from before the rest says nothing new.
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
