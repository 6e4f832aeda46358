/** Facts about images with few requests: a cache over an `ImageReader` that shares requests in flight. */
import { createHmac, randomBytes } from "node:crypto";
import { FactCache, type HeldFacts } from "./fact-cache.ts";
import type {
  FactAnswer,
  FactDemand,
  FactQuestion,
  ImageFactStoreOptions,
  PullPolicy,
} from "./fact-question.ts";
import { RegistryError, type RegistryFailureKind } from "./failure.ts";
import { FailureMemory, type StandingFailure } from "./failure-memory.ts";
import { referenceText } from "./reference.ts";
import { type RegistryAsker, RegistryBreakers } from "./registry-breaker.ts";
import { count, RequestTurns, type Turn } from "./request-turns.ts";
import { factName, parseStoredFact, type StoredFact } from "./stored-fact.ts";
import type { ImageFacts, ImageReference, RegistryCredential } from "./types.ts";

/** Questions about one name that are in flight or wait for their turn. */
interface Pursuits {
  /** Start of the first one, on the clock that never goes back. */
  readonly since: number;
  count: number;
}

/** One question with its credentials and turn. */
interface Attempt {
  readonly credentials: readonly RegistryCredential[];
  readonly fingerprint: string;
  readonly turn: Turn;
}

/** Shortest delay of a question without room or without readable credentials, ms. */
const PUT_OFF_MS = 5_000;
/** A registry that takes longer for one question does not count as prompt, ms. */
const PROMPT_MS = 2_000;

/** Failures that say nothing about the image or the asker. Old facts stay valid despite them. */
const NOT_ABOUT_THE_IMAGE: ReadonlySet<RegistryFailureKind> = new Set([
  "unreachable",
  "serverError",
  "rateLimited",
  "suspended",
  "malformed",
]);
/**
 * Facts about images.
 *
 * - `look` is quick and has no effect. `want` asks the registry if `look` returns `unknown`.
 * - **Digests** are known for ever, **tags** for a time that depends on the pull policy. After it a HEAD request checks
 *   whether the tag has moved, and only a moved tag is read again.
 * - **Old facts outlive a registry that fails**: while its failure is valid, a tag keeps its last facts.
 * - **One question at a time** for each name, from any namespace; 4 per registry and 16 in all.
 * - **Namespaces are served in turn**. Each may use as much as it leaves free for others.
 * - **Failures are kept**: 60 s doubling to 10 min for a registry's answer; 5 s doubling to 5 min without an answer;
 *   never less than `Retry-After` (an hour at most).
 * - **A failure belongs to the credentials in use**, or to having none, so it does not affect other tenants. While it
 *   is valid, the same credentials are not tried on the image again, for any tenant.
 * - **A registry that fails two namespaces** rests. One that limits a credential rests for that credential
 *   (`RegistryBreakers`).
 * - Everything is bounded, and forgotten facts are only asked for again.
 */
export class ImageFactStore implements AsyncDisposable {
  readonly #options: ImageFactStoreOptions;
  readonly #facts: FactCache;
  readonly #failures: FailureMemory;
  readonly #breakers: RegistryBreakers;
  readonly #turns: RequestTurns;
  /** Pursuits by name. */
  readonly #pursuits = new Map<string, Pursuits>();
  /** By name, scope and freshness. */
  readonly #wanted = new Map<string, Promise<void>>();
  /** Number of `#wanted` entries per namespace. */
  readonly #namespaces = new Map<string, number>();
  readonly #listeners = new Set<(name: string) => void>();
  readonly #stop = new AbortController();
  /** Fingerprints of credentials are useless outside of this store. */
  readonly #salt = randomBytes(32);

  constructor(options: ImageFactStoreOptions) {
    this.#options = options;
    this.#facts = new FactCache(options.maxFacts ?? 10_000);
    this.#failures = new FailureMemory(options.maxFailures ?? 10_000, options.random ?? Math.random);
    this.#breakers = new RegistryBreakers(options.breaker);
    this.#turns = new RequestTurns(options.turns);
  }

  /** The current answer. During a new question a failure may be returned longer than it is valid. */
  look(question: FactQuestion): FactAnswer {
    const name = factName(question.reference);
    const answer = this.#answer(name, question, this.#pursuits.get(name)?.since);
    this.#options.observer?.looked?.(answer.state);
    return answer;
  }

  /**
   * Obtains an answer for `look` to the same question. Resolves when an answer is known or the store is disposed of; at
   * once if it is known already. The same question again returns the same promise. Never rejects.
   */
  want(demand: FactDemand): Promise<void> {
    const name = factName(demand.reference);
    if (this.#settled(name, demand)) return Promise.resolve();
    const key = JSON.stringify([name, demand.scope, demand.pull === "Always"]);
    const running = this.#wanted.get(key);
    if (running !== undefined) return running;
    const { namespace = demand.scope } = demand;
    const mine = this.#namespaces.get(namespace) ?? 0;
    if (mine >= (this.#options.maxWaiting ?? 10_000) - this.#wanted.size) {
      this.#putOff(name, demand);
      return Promise.resolve();
    }
    count(this.#namespaces, namespace, 1);
    const pursuit = this.#pursue(name, demand).finally(() => {
      this.#wanted.delete(key);
      count(this.#namespaces, namespace, -1);
    });
    this.#wanted.set(key, pursuit);
    return pursuit;
  }

  /** All facts, for a later `restore`; the most recently used come last. */
  *entries(): Iterable<StoredFact> {
    for (const [name, { facts, at }] of this.#facts.entries()) {
      yield { name, ...facts, at };
    }
  }

  /**
   * Takes over facts from outside. Of two facts about one name the newer wins. A future date becomes the present.
   * Inconsistent facts are refused. Listeners are called for accepted facts.
   */
  restore(stored: Iterable<unknown>): { readonly taken: number; readonly refused: number } {
    let taken = 0;
    let refused = 0;
    for (const value of stored) {
      const fact = parseStoredFact(value);
      if (fact === undefined) refused += 1;
      else if (this.#adopt(fact)) taken += 1;
    }
    return { taken, refused };
  }

  /** The listener receives the `factName` of an image when the answer to at least one question changed. */
  subscribe(listener: (name: string) => void): Disposable {
    // A separate function, so that the same listener can subscribe twice.
    const told = (name: string): void => listener(name);
    this.#listeners.add(told);
    return { [Symbol.dispose]: () => this.#listeners.delete(told) };
  }

  /** Aborts the questions in flight, and waits until they have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#turns.close();
    await Promise.all(this.#wanted.values());
  }

  /** @param askedSince start of the question in flight for the image, if any. */
  #answer(name: string, { reference, pull, scope }: FactQuestion, askedSince?: number): FactAnswer {
    const now = this.#options.monotonic();
    const held = this.#facts.get(name);
    if (held !== undefined && (reference.digest !== undefined || now - held.confirmed < this.#ttlOf(pull))) {
      return { state: "known", facts: held.facts, at: held.at };
    }
    const failure = this.#failures.standing(scopeKey(name, scope), now, askedSince);
    if (failure === undefined) return { state: "unknown" };
    if (held !== undefined && NOT_ABOUT_THE_IMAGE.has(failure.error.kind)) {
      return { state: "known", facts: held.facts, at: held.at };
    }
    return this.#failed(failure, now);
  }

  #failed({ error, since, until }: StandingFailure, now: number): FactAnswer {
    const wall = this.#options.now() - now;
    const retryAt = Number.isFinite(until) ? { retryAt: wall + until } : {};
    return { state: "failed", error, at: wall + since, ...retryAt };
  }

  #ttlOf(pull: PullPolicy): number {
    const { alwaysTtlMs = 300_000, tagTtlMs = 21_600_000 } = this.#options;
    return pull === "Always" ? alwaysTtlMs : tagTtlMs;
  }

  #settled(name: string, question: FactQuestion): boolean {
    return this.#stop.signal.aborted || this.#answer(name, question).state !== "unknown";
  }

  async #pursue(name: string, demand: FactDemand): Promise<void> {
    const pursuits = this.#pursuits.get(name) ?? { since: this.#options.monotonic(), count: 0 };
    pursuits.count += 1;
    this.#pursuits.set(name, pursuits);
    try {
      await this.#options.ready;
      const isTold = await this.#askInTurn(name, demand);
      if (isTold && !this.#stop.signal.aborted) this.#tell(name);
    } finally {
      pursuits.count -= 1;
      if (pursuits.count === 0) this.#pursuits.delete(name);
    }
  }

  /** @returns whether the answer changed. Other askers of the same name may have received it before. */
  async #askInTurn(name: string, demand: FactDemand): Promise<boolean> {
    const { registry } = demand.reference;
    if (this.#settled(name, demand)) return false;
    const suspended = this.#suspension(registry);
    if (suspended !== undefined) {
      this.#remember(name, demand.scope, suspended);
      return true;
    }
    const { namespace = demand.scope } = demand;
    using turn = await this.#turns.take({ namespace, registry, name });
    if (turn === undefined || this.#settled(name, demand)) return false;
    await this.#ask(name, demand, turn);
    return true;
  }

  async #ask(name: string, demand: FactDemand, turn: Turn): Promise<void> {
    const credentials = await this.#credentialsOf(name, demand);
    if (credentials === undefined) return undefined;
    const fingerprint = this.#fingerprintOf(credentials);
    const identity = `${name}\ncredentials\n${fingerprint}`;
    const failed = this.#failures.standing(identity, this.#options.monotonic());
    if (failed !== undefined) return this.#failures.share(scopeKey(name, demand.scope), failed);
    const error = await this.#readInTurn(name, demand, { credentials, fingerprint, turn });
    if (error !== undefined) return this.#remember(name, demand.scope, error, identity);
    for (const key of [scopeKey(name, demand.scope), identity]) this.#failures.forget(key);
  }

  /** `undefined` when reading them failed; the failure is recorded. */
  async #credentialsOf(name: string, demand: FactDemand): Promise<readonly RegistryCredential[] | undefined> {
    try {
      return await demand.credentials();
    } catch {
      // Omit the error, which may quote a Secret.
      const message = `${name} was not looked up: the pull secrets for it could not be read; it is tried again`;
      const error = new RegistryError("unauthorized", message, { registry: demand.reference.registry });
      const key = scopeKey(name, demand.scope);
      const now = this.#options.monotonic();
      this.#failures.share(key, { error, since: now, until: now + PUT_OFF_MS, count: 1 });
      return undefined;
    }
  }

  /** Reads and stores the facts, or returns the failure. */
  async #readInTurn(
    name: string,
    { reference, scope, namespace = scope }: FactDemand,
    { credentials, fingerprint, turn }: Attempt,
  ): Promise<RegistryError | undefined> {
    const { registry } = reference;
    const asker = { registry, namespace, credential: fingerprint };
    const suspended = this.#suspension(asker);
    if (suspended !== undefined) return suspended;
    let failure: RegistryError | undefined;
    const since = this.#options.monotonic();
    try {
      await this.#read(name, reference, credentials);
    } catch (error) {
      failure = this.#stop.signal.aborted ? aborted(registry) : toRegistryError(error, reference);
      this.#options.observer?.asked?.(failure.kind);
    }
    const now = this.#options.monotonic();
    this.#breakers.settle(asker, failure, now);
    const isAnswer = failure === undefined || !NOT_ABOUT_THE_IMAGE.has(failure.kind);
    turn.asked(isAnswer && now - since < PROMPT_MS);
    return failure;
  }

  async #read(
    name: string,
    reference: ImageReference,
    credentials: readonly RegistryCredential[],
  ): Promise<void> {
    const { reader, observer } = this.#options;
    const options = { credentials, signal: this.#stop.signal };
    const held = this.#facts.peek(name);
    const digest = held === undefined ? undefined : await reader.digestOf(reference, options);
    const same = digest === held?.facts.digest ? held : this.#ofDigest(reference, digest);
    const facts = same === undefined ? await reader.read(reference, options) : same.facts;
    this.#learn(name, reference, facts);
    observer?.asked?.(same === undefined ? "read" : "renewed");
  }

  #ofDigest(reference: ImageReference, digest: string | undefined): HeldFacts | undefined {
    return digest === undefined ? undefined : this.#facts.peek(factName({ ...reference, digest }));
  }

  /** Stores the facts of a tag under its digest as well. */
  #learn(name: string, reference: ImageReference, facts: ImageFacts): void {
    const held = { facts, at: this.#options.now(), confirmed: this.#options.monotonic() };
    const ofDigest = factName({ ...reference, digest: facts.digest });
    this.#facts.set(ofDigest, held);
    this.#facts.set(name, held);
    if (ofDigest !== name) this.#tell(ofDigest);
  }

  #adopt(fact: StoredFact): boolean {
    const { name, at: readAt, ...facts } = fact;
    const now = this.#options.now();
    const at = Math.min(readAt, now);
    const held = this.#facts.peek(name);
    if (held !== undefined && held.at >= at) return false;
    const confirmed = this.#options.monotonic() - (now - at);
    this.#facts.set(name, { facts, at, confirmed });
    this.#tell(name);
    return true;
  }

  #remember(name: string, scope: string, error: RegistryError, identity?: string): void {
    if (error.kind === "aborted") return;
    const now = this.#options.monotonic();
    const ofScope = scopeKey(name, scope);
    if (identity === undefined || error.kind === "suspended") this.#failures.record(ofScope, error, now);
    else this.#failures.share(ofScope, this.#failures.record(identity, error, now));
  }

  /** @param asker of a question that is put now if allowed, or a registry, to check only whether it rests. */
  #suspension(asker: RegistryAsker | string): RegistryError | undefined {
    const now = this.#options.monotonic();
    const registry = typeof asker === "string" ? asker : asker.registry;
    const admission =
      typeof asker === "string" ? this.#breakers.check(asker, now) : this.#breakers.admit(asker, now);
    if (admission.allowed) return undefined;
    const why =
      admission.why === "failing" ? "the last questions to it failed" : "it limits the rate of requests";
    const message = `${registry} gets no requests for a while, because ${why}; it is asked again by itself`;
    this.#options.observer?.asked?.("suspended");
    return new RegistryError("suspended", message, { registry, retryAfterMs: admission.waitMs });
  }

  /** First come, first served: new questions of a namespace do not displace its waiting ones. */
  #putOff(name: string, { reference: { registry }, scope }: FactQuestion): void {
    const message = `${name} was not looked up: too many other images wait to be looked up; it is tried again`;
    const error = new RegistryError("suspended", message, { registry, retryAfterMs: PUT_OFF_MS });
    this.#failures.record(scopeKey(name, scope), error, this.#options.monotonic());
    this.#options.observer?.asked?.("suspended");
  }

  /** Equal for equal credentials of any tenant. */
  #fingerprintOf(credentials: readonly RegistryCredential[]): string {
    const text = JSON.stringify(
      credentials.map(({ username, password, identityToken, registryToken }) => [
        username,
        password,
        identityToken,
        registryToken,
      ]),
    );
    return createHmac("sha256", this.#salt).update(text).digest("base64");
  }

  #tell(name: string): void {
    for (const listener of this.#listeners) {
      try {
        listener(name);
      } catch (error) {
        this.#options.observer?.listenerFailed?.(error);
      }
    }
  }
}

function scopeKey(name: string, scope: string): string {
  return `${name}\nscope\n${scope}`;
}

function aborted(registry: string): RegistryError {
  return new RegistryError("aborted", "the question was given up", { registry });
}

/** A reader must throw only RegistryErrors. Any other error is not quoted, because it may hold secrets. */
function toRegistryError(error: unknown, reference: ImageReference): RegistryError {
  if (error instanceof RegistryError) return error;
  const message = `${referenceText(reference)} was not looked up: its reader failed in an unexpected way`;
  return new RegistryError("unreachable", message, { registry: reference.registry });
}
