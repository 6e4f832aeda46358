/** What is known of images, asked for as seldom as can be: a cache with single flight over an `ImageReader`. */
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
import { RegistryBreakers } from "./registry-breaker.ts";
import { count, RequestTurns, type Turn } from "./request-turns.ts";
import { factName, parseStoredFact, type StoredFact } from "./stored-fact.ts";
import type { ImageFacts, ImageReference, RegistryCredential } from "./types.ts";

/** Questions about one name that are being asked, or wait for their turn. */
interface Pursuits {
  /** The first of them; on the clock that never goes back. */
  readonly since: number;
  count: number;
}

/** How long a question that found no room, or whose credentials could not be read, is put off at least, ms. */
const PUT_OFF_MS = 5_000;
/** A registry that takes longer for what one question needs is no prompt one, ms. */
const PROMPT_MS = 2_000;

/** Said in the name of the registry, or of nobody: not of the image, and not of who asked. Old facts outlive them. */
const NOT_ABOUT_THE_IMAGE: ReadonlySet<RegistryFailureKind> = new Set([
  "unreachable",
  "serverError",
  "rateLimited",
  "suspended",
  "malformed",
]);
/** What another credential could change. Registries say `notFound` also to whoever may not know. */
const ABOUT_WHO_ASKS: ReadonlySet<RegistryFailureKind> = new Set(["unauthorized", "forbidden", "notFound"]);

/**
 * Facts about images.
 *
 * - `look` is quick and without effect. `want` has a registry asked, if `look` says `unknown`.
 * - **Digests** are known for ever, **tags** for a time that depends on the pull policy. Then a HEAD request asks whether
 *   the tag has moved, and only what moved is read again.
 * - **Old facts outlive a registry that fails**: while its failure stands, a tag is what it was.
 * - **One question at a time** for each name, whoever asks; 4 per registry and 16 in all.
 * - **Namespaces are served in turn**, and each may use and wait for as much as it leaves free for others.
 * - **Failures stand**: 60 s doubling to 10 min for what a registry said, 5 s doubling to 5 min for what it did not
 *   manage to say, and never less than `Retry-After` (an hour at most).
 * - **A refusal is of who asked**: one tenant's missing secret fails nobody else. Credentials that were refused an image
 *   are not tried on it again while that stands, whoever has them.
 * - **A registry that fails or limits** is left alone (`RegistryBreakers`).
 * - Everything is bounded, and what is forgotten is only asked again.
 */
export class ImageFactStore implements AsyncDisposable {
  readonly #options: ImageFactStoreOptions;
  readonly #facts: FactCache;
  readonly #failures: FailureMemory;
  readonly #breakers: RegistryBreakers;
  readonly #turns: RequestTurns;
  /** By name. */
  readonly #pursuits = new Map<string, Pursuits>();
  /** By name, scope and freshness. */
  readonly #wanted = new Map<string, Promise<void>>();
  /** How many of these each namespace has. */
  readonly #namespaces = new Map<string, number>();
  readonly #listeners = new Set<(name: string) => void>();
  readonly #stop = new AbortController();
  /** Fingerprints of credentials mean nothing outside of this store. */
  readonly #salt = randomBytes(32);

  constructor(options: ImageFactStoreOptions) {
    this.#options = options;
    this.#facts = new FactCache(options.maxFacts ?? 10_000);
    this.#failures = new FailureMemory(options.maxFailures ?? 10_000, options.random ?? Math.random);
    this.#breakers = new RegistryBreakers(options.breaker);
    this.#turns = new RequestTurns(options.turns);
  }

  /** What is known now. A failure may be told a while longer than it stands, while the image is asked for again. */
  look(question: FactQuestion): FactAnswer {
    const name = factName(question.reference);
    const answer = this.#answer(name, question, this.#pursuits.get(name)?.since);
    this.#options.observer?.looked?.(answer.state);
    return answer;
  }

  /**
   * Sees to it that `look` has an answer for the same question. Resolves when it has, which is at once when it has
   * already, or when the store is disposed of. The same question again is the same promise. Never rejects.
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

  /** All that is known, for `restore` elsewhere or later; what was used last comes last. */
  *entries(): Iterable<StoredFact> {
    for (const [name, { facts, at }] of this.#facts.entries()) {
      yield { name, ...facts, at };
    }
  }

  /**
   * Takes over facts from outside. Of two about one name the newer stands; a date in the future is now; what does not
   * hold together is refused. Listeners are told of what was taken.
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

  /** The listener is told the `factName` of an image whose answer is another now, for some question at least. */
  subscribe(listener: (name: string) => void): Disposable {
    // One of its own, so that the same function can listen twice.
    const told = (name: string): void => listener(name);
    this.#listeners.add(told);
    return { [Symbol.dispose]: () => this.#listeners.delete(told) };
  }

  /** Gives up what is being asked, and waits until that has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#turns.close();
    await Promise.all(this.#wanted.values());
  }

  /** @param askedSince since when the image is asked for again, if it is. */
  #answer(name: string, { reference, pull, scope }: FactQuestion, askedSince?: number): FactAnswer {
    const now = this.#options.monotonic();
    const held = this.#facts.get(name);
    if (held !== undefined && (reference.digest !== undefined || now - held.confirmed < this.#ttlOf(pull))) {
      return { state: "known", facts: held.facts, at: held.at };
    }
    const failure =
      this.#failures.standing(name, now, askedSince) ??
      this.#failures.standing(scopeKey(name, scope), now, askedSince);
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

  /** @returns whether there is another answer now. Others who asked for the same name may have had it before. */
  async #askInTurn(name: string, demand: FactDemand): Promise<boolean> {
    const { registry } = demand.reference;
    if (this.#settled(name, demand)) return false;
    const suspended = this.#suspension(registry, "check");
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
    const identity = this.#identityOf(name, credentials);
    const refused = this.#failures.standing(identity, this.#options.monotonic());
    if (refused !== undefined) return this.#failures.share(scopeKey(name, demand.scope), refused);
    const error = await this.#readInTurn(name, demand.reference, credentials, turn);
    return error === undefined ? undefined : this.#remember(name, demand.scope, error, identity);
  }

  /** `undefined` when it could not be had, which is remembered. */
  async #credentialsOf(name: string, demand: FactDemand): Promise<readonly RegistryCredential[] | undefined> {
    try {
      return await demand.credentials();
    } catch {
      // What was thrown may quote a Secret.
      const message = `${name} was not looked up: the pull secrets for it could not be read; it is tried again`;
      const error = new RegistryError("unauthorized", message, { registry: demand.reference.registry });
      const key = scopeKey(name, demand.scope);
      const now = this.#options.monotonic();
      this.#failures.share(key, { error, since: now, until: now + PUT_OFF_MS, count: 1 });
      return undefined;
    }
  }

  /** Reads, and learns; or says why not. */
  async #readInTurn(
    name: string,
    reference: ImageReference,
    credentials: readonly RegistryCredential[],
    turn: Turn,
  ): Promise<RegistryError | undefined> {
    const { registry } = reference;
    const suspended = this.#suspension(registry, "admit");
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
    this.#breakers.settle(registry, failure, now);
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

  /** What a tag stands for is known under its digest as well. */
  #learn(name: string, reference: ImageReference, facts: ImageFacts): void {
    const held = { facts, at: this.#options.now(), confirmed: this.#options.monotonic() };
    const ofDigest = factName({ ...reference, digest: facts.digest });
    this.#facts.set(ofDigest, held);
    this.#facts.set(name, held);
    this.#failures.forget(name);
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
    if (identity === undefined || !ABOUT_WHO_ASKS.has(error.kind)) {
      this.#failures.record(name, error, now);
    } else {
      this.#failures.share(scopeKey(name, scope), this.#failures.record(identity, error, now));
    }
  }

  #suspension(registry: string, how: "check" | "admit"): RegistryError | undefined {
    const now = this.#options.monotonic();
    const admission =
      how === "check" ? this.#breakers.check(registry, now) : this.#breakers.admit(registry, now);
    if (admission.allowed) return undefined;
    const why =
      admission.why === "failing" ? "the last questions to it failed" : "it limits how often it may be asked";
    const message = `${registry} is not asked for a while, because ${why}; it is tried again by itself`;
    this.#options.observer?.asked?.("suspended");
    return new RegistryError("suspended", message, { registry, retryAfterMs: admission.waitMs });
  }

  /** The first who come are served: a flood of its new questions does not push out those that a namespace has waiting. */
  #putOff(name: string, { reference: { registry }, scope }: FactQuestion): void {
    const message = `${name} was not looked up: too many other images wait to be looked up; it is tried again`;
    const error = new RegistryError("suspended", message, { registry, retryAfterMs: PUT_OFF_MS });
    this.#failures.record(scopeKey(name, scope), error, this.#options.monotonic());
    this.#options.observer?.asked?.("suspended");
  }

  /** The key of what these credentials were refused, whoever has them. */
  #identityOf(name: string, credentials: readonly RegistryCredential[]): string {
    const text = JSON.stringify(
      credentials.map(({ username, password, identityToken, registryToken }) => [
        username,
        password,
        identityToken,
        registryToken,
      ]),
    );
    return `${name}\ncredentials\n${createHmac("sha256", this.#salt).update(text).digest("base64")}`;
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

/** A reader promises to throw nothing else. What is thrown all the same is not quoted: nobody knows what is in it. */
function toRegistryError(error: unknown, reference: ImageReference): RegistryError {
  if (error instanceof RegistryError) return error;
  const message = `${referenceText(reference)} was not looked up: its reader failed in an unexpected way`;
  return new RegistryError("unreachable", message, { registry: reference.registry });
}
