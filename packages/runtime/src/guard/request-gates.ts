/**
 * Holds requests back while the API server refuses their kind. A temporary refusal is then noticed soon, and a
 * permanent one costs little. After each restart the server refuses everything until its RBAC caches are loaded. That
 * answer is the same as for a missing permission, so both are treated alike.
 */
import { ApiError, describeRequest, isApiError, type RequestInfo } from "@berth/kube";
import { backoffDelay, type Random } from "../backoff.ts";
import type { Clock } from "../clock.ts";
import { SharedFailure } from "../shared-failure.ts";

/** A request of a refused kind is sent again after at most this long. Milliseconds. */
export const REFUSED_RETRY_CAP_MS = 25_000;
/** After the first refusal. Milliseconds. */
const BASE_MS = 250;
/** The refused request itself waits this much longer, so that other requests get their turn. Milliseconds. */
const TURN_MS = 50;
/** A refusal is reported until this long after its next attempt is due. Such requests may have ended by then. Ms. */
const STALE_MS = 60_000;
/** Kinds remembered; each namespace adds some. Above it the oldest is forgotten and its next request is sent. */
const MAX_GATES = 1_000;

/** One kind of request that the API server refuses. */
export interface RefusedKind {
  /** The last refusal. */
  readonly refusal: ApiError;
  /** Monotonic ms. */
  readonly since: number;
  /** Requests that were refused or not sent. */
  readonly affected: number;
}

interface Gate extends RefusedKind {
  refusal: ApiError;
  affected: number;
  refusals: number;
  /** Earliest time of the next request, monotonic ms. */
  nextAt: number;
  /** Settles when the request in flight has its answer. */
  trial: Promise<void> | undefined;
}

export interface RequestGatesOptions {
  readonly clock: Clock;
  readonly random?: Random;
  /** Called for the first refusal of a kind. Must not throw. */
  readonly onRefused: (kind: RefusedKind) => void;
  /** Called when the server accepts such requests again. Must not throw. */
  readonly onTaken: (kind: RefusedKind) => void;
}

/**
 * A kind is a verb, a resource and a namespace. After a refusal one request of the kind is sent at a time, with
 * backoff up to `REFUSED_RETRY_CAP_MS`; the others fail with the same refusal and the time of that attempt.
 *
 * A refusal of one object by admission (a policy, a quota) holds nothing back, because other objects may be accepted.
 * `failure.ofObject` detects it by the server's words. Unknown words count as a refusal of the kind, so thousands of
 * objects do not send requests all the time. If that is wrong, each request gets its turn, and any answer that needs
 * authorization releases all others.
 */
export class RequestGates {
  readonly #options: RequestGatesOptions;
  readonly #gates = new Map<string, Gate>();

  constructor(options: RequestGatesOptions) {
    this.#options = options;
  }

  /** Kinds that the server refused when last asked, the oldest first. */
  get refused(): readonly RefusedKind[] {
    const now = this.#options.clock.monotonic();
    return [...this.#gates.values()].filter(({ nextAt }) => now < nextAt + STALE_MS);
  }

  /** @throws SharedFailure when the server refuses such requests, and what `send` throws. */
  async run<R>(about: RequestInfo, send: () => Promise<R>, signal?: AbortSignal): Promise<R> {
    const kind = kindOf(about);
    for (let gate = this.#gates.get(kind); gate !== undefined; gate = this.#gates.get(kind)) {
      if (gate.trial === undefined) {
        const waitMs = gate.nextAt - this.#options.clock.monotonic();
        if (waitMs <= 0) return await this.#try(kind, gate, send);
        gate.affected++;
        throw new SharedFailure(gate.refusal, waitMs, about);
      }
      await settledOrAborted(gate.trial, signal);
      if (signal?.aborted) throw new ApiError({ kind: "aborted" }, about);
    }
    return await this.#send(kind, undefined, send);
  }

  async #try<R>(kind: string, gate: Gate, send: () => Promise<R>): Promise<R> {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate.trial = promise;
    try {
      return await this.#send(kind, gate, send);
    } finally {
      gate.trial = undefined;
      resolve();
    }
  }

  async #send<R>(kind: string, tried: Gate | undefined, send: () => Promise<R>): Promise<R> {
    try {
      const answer = await send();
      this.#taken(kind);
      return answer;
    } catch (error) {
      if (!isApiError(error)) throw error;
      if (error.failure.kind === "forbidden" && error.failure.ofObject !== true) {
        const nextAt = this.#refuse(kind, tried, error);
        throw new SharedFailure(error, nextAt + TURN_MS - this.#options.clock.monotonic());
      }
      if (isAuthorized(error)) this.#taken(kind);
      else if (tried !== undefined && error.failure.kind !== "aborted") this.#postpone(tried);
      throw error;
    }
  }

  #taken(kind: string): void {
    const gate = this.#gates.get(kind);
    if (gate === undefined) return;
    this.#gates.delete(kind);
    this.#options.onTaken(gate);
  }

  /** @returns when the next request of this kind may be sent. */
  #refuse(kind: string, tried: Gate | undefined, refusal: ApiError): number {
    const known = this.#gates.get(kind);
    // Refusals of requests that were in flight together count as one.
    if (known !== undefined) {
      known.affected++;
      if (known !== tried) return known.nextAt;
      known.refusal = refusal;
      known.refusals++;
      this.#postpone(known);
      return known.nextAt;
    }
    const since = this.#options.clock.monotonic();
    const gate: Gate = { refusal, since, affected: 1, refusals: 1, nextAt: since, trial: undefined };
    this.#postpone(gate);
    for (const [oldest] of this.#gates) {
      if (this.#gates.size < MAX_GATES) break;
      this.#taken(oldest);
    }
    this.#gates.set(kind, gate);
    this.#options.onRefused(gate);
    return gate.nextAt;
  }

  #postpone(gate: Gate): void {
    const { clock, random } = this.#options;
    const backoff = { baseMs: BASE_MS, capMs: REFUSED_RETRY_CAP_MS, ...(random && { random }) };
    gate.nextAt = clock.monotonic() + backoffDelay(gate.refusals, backoff);
  }
}

function kindOf({ name: _name, ...kind }: RequestInfo): string {
  return describeRequest(kind);
}

/** Answers that follow authorization of the request. A 429 can come before it, and a 5xx from anywhere. */
const AUTHORIZED: ReadonlySet<ApiError["failure"]["kind"]> = new Set([
  "notFound",
  "alreadyExists",
  "conflict",
  "uidMismatch",
  "invalid",
  "forbidden",
  "expired",
]);

function isAuthorized({ failure }: ApiError): boolean {
  return AUTHORIZED.has(failure.kind);
}

/** Resolves with `settled`, or when `signal` aborts. */
async function settledOrAborted(settled: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted) return;
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const onAbort = (): void => resolve();
  signal?.addEventListener("abort", onAbort, { once: true });
  await Promise.race([settled, aborted]);
  signal?.removeEventListener("abort", onAbort);
}
