/**
 * Reads images over the HTTP API of the OCI distribution specification. Answers of a registry are checked against the
 * digests and limited in size and time. A registry is not trusted to say where credentials may go.
 */
import { performance } from "node:perf_hooks";
import { type Asker, Authorizer } from "./authorization.ts";
import type { ProxyFor } from "./connections.ts";
import { Deadline } from "./deadline.ts";
import { digestOf, hasDigest, isCheckable } from "./digest.ts";
import { checkEndpoints, type Endpoint, endpointsFor, type RegistryEndpoints } from "./endpoints.ts";
import { ExchangeError } from "./exchange-error.ts";
import { type Circumstances, explain } from "./explanation.ts";
import type { RegistryError } from "./failure.ts";
import { type Content, type ContentReader, factsOf } from "./image-content.ts";
import { CONFIG_LIMITS, MANIFEST_LIMITS, MANIFEST_MEDIA_TYPES } from "./manifest.ts";
import { isRegistry, MirrorRests } from "./mirror-rests.ts";
import { refusal } from "./refusal.ts";
import { type RegistryClock, TokenStore } from "./token.ts";
import { type Answer, type Exchange, type RegistryRequest, Transport } from "./transport.ts";
import type { ImageFacts, ImageReader, ImageReference, ReadOptions, RegistryCredential } from "./types.ts";

/** The endpoints of registries, the time limits, and a callback for requests. */
export interface RegistryClientOptions {
  /** Registries that are not reached by https at their own name. Default: none. */
  readonly endpoints?: RegistryEndpoints;
  /** The proxy for a server. It decides which addresses are reached behind it. Default: no proxy. */
  readonly proxyFor?: ProxyFor;
  /** Default `registry-client`. */
  readonly userAgent?: string;
  /** How messages name the program that asks. Default `this program`. */
  readonly program?: string;
  /** Where messages say that `endpoints` are set. Default `its endpoint`. */
  readonly settings?: string;
  /** Time limit of each request, ms. Default 10,000. */
  readonly requestMs?: number;
  /** Time limit of a whole `read` or `digestOf`, with tokens, mirrors and credentials, ms. Default 30,000. */
  readonly readMs?: number;
  /** Called after every request on the wire. Must be quick and not throw. */
  readonly onRequest?: (request: RegistryRequest) => void;
  /** Default: the system's clock. */
  readonly clock?: RegistryClock;
}

const ACCEPT = MANIFEST_MEDIA_TYPES.join(", ");
/** A pod has a handful of secrets; each may cost three requests. */
const MAX_CREDENTIALS = 16;
const SYSTEM_CLOCK: RegistryClock = { now: () => Date.now(), monotonic: () => performance.now() };

/**
 * Opens nothing yet. Disposing it ends requests in flight, with RegistryError `aborted`.
 * @throws TypeError for invalid endpoints: a mirror that is no URL, plain http that is not allowed, no PEM.
 */
export function createRegistryClient(options: RegistryClientOptions = {}): ImageReader & AsyncDisposable {
  return new RegistryClient(options);
}

/** One attempt: one server, one credential. */
interface Attempt extends Asker {
  readonly deadline: Deadline;
}

class RegistryClient implements ImageReader, AsyncDisposable {
  readonly #endpoints: RegistryEndpoints;
  readonly #transport: Transport;
  readonly #authorizer: Authorizer;
  readonly #mirrors: MirrorRests = new MirrorRests();
  readonly #clock: RegistryClock;
  readonly #readMs: number;
  readonly #named: Pick<Circumstances, "program" | "settings">;
  readonly #closing: AbortController = new AbortController();

  constructor(options: RegistryClientOptions) {
    const { endpoints = {}, userAgent = "registry-client", requestMs = 10_000, readMs = 30_000 } = options;
    const { onRequest = () => undefined, clock = SYSTEM_CLOCK, proxyFor } = options;
    checkEndpoints(endpoints);
    this.#endpoints = endpoints;
    const listed = new Set(
      Object.entries(endpoints).flatMap(([name, config]) =>
        endpointsFor(name, config).map(({ origin }) => origin),
      ),
    );
    this.#transport = new Transport({
      userAgent,
      requestMs,
      onRequest,
      listed,
      ...(proxyFor && { proxyFor }),
    });
    this.#authorizer = new Authorizer(new TokenStore(this.#transport, clock, this.#closing.signal));
    this.#clock = clock;
    this.#readMs = readMs;
    const { program = "this program", settings = "its endpoint" } = options;
    this.#named = { program, settings };
  }

  read(reference: ImageReference, options: ReadOptions): Promise<ImageFacts> {
    return this.#somewhere(reference, options, (attempt) =>
      factsOf(this.#contentOf(attempt), nameOf(reference)),
    );
  }

  digestOf(reference: ImageReference, options: ReadOptions): Promise<string | undefined> {
    return this.#somewhere(reference, options, (attempt) => this.#head(attempt, reference));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#transport.close();
  }

  /** Asks the mirrors and then the registry, each with its credentials, until one answers. */
  async #somewhere<T>(
    reference: ImageReference,
    options: ReadOptions,
    ask: (attempt: Attempt) => Promise<T>,
  ): Promise<T> {
    const config = Object.hasOwn(this.#endpoints, reference.registry)
      ? this.#endpoints[reference.registry]
      : undefined;
    using deadline = new Deadline(this.#readMs, options.signal, this.#closing.signal);
    const failed: string[] = [];
    let ofRegistry: RegistryError | undefined;
    for (const endpoint of this.#inOrder(endpointsFor(reference.registry, config))) {
      // Only resting mirrors come after the registry.
      if (ofRegistry !== undefined && ofRegistry.kind !== "unreachable") break;
      const { host } = endpoint;
      const credentials = credentialsFor(endpoint, options);
      try {
        checkName(reference);
        const repository = endpoint.prefix + reference.repository;
        const found = await withEach(credentials, (credential) =>
          ask({ endpoint, repository, credential, deadline }),
        );
        this.#mirrors.settle(endpoint, true, this.#clock.monotonic());
        return found;
      } catch (cause) {
        const error = this.#failureOf(cause, host, deadline);
        // A mirror did answer if the server that failed is another one that it redirected to.
        const answered = error.kind !== "unreachable" || error.elsewhere;
        if (error.kind !== "aborted") this.#mirrors.settle(endpoint, answered, this.#clock.monotonic());
        const about = { reference, host, ...this.#named, mirrors: failed };
        const told = explain(error, { ...about, credentials: credentials.length });
        if (isRegistry(endpoint)) ofRegistry = told;
        else failed.push(host);
        if (deadline.signal.aborted) throw ofRegistry ?? told;
      }
    }
    throw ofRegistry ?? new TypeError("a registry is one of its own endpoints");
  }

  #inOrder(endpoints: readonly Endpoint[]): readonly Endpoint[] {
    return this.#mirrors.order(endpoints, this.#clock.monotonic());
  }

  /** @throws any error that is no failed exchange: a bug of this package. */
  #failureOf(cause: unknown, host: string, deadline: Deadline): ExchangeError {
    if (deadline.passed) {
      const why = `${host} was not done within ${this.#readMs / 1000} s`;
      // A silent registry fails earlier, so the time went to several requests, to any servers.
      return new ExchangeError("unreachable", why, { elsewhere: true });
    }
    if (deadline.signal.aborted) return new ExchangeError("aborted", "the caller gave up");
    if (cause instanceof ExchangeError) return cause;
    throw cause;
  }

  #contentOf(attempt: Attempt): ContentReader {
    return {
      host: attempt.endpoint.host,
      manifest: (name) => this.#manifest(attempt, name),
      config: async (digest) => {
        const answer = await this.#ask(attempt, {
          kind: "blob",
          method: "GET",
          path: `blobs/${digest}`,
          accept: "*/*",
          maxBytes: CONFIG_LIMITS.maxBytes,
        });
        return checked(answer.bytes, digest, attempt.endpoint.host);
      },
    };
  }

  async #manifest(attempt: Attempt, name: string): Promise<Content> {
    const { host } = attempt.endpoint;
    const { bytes, headers } = await this.#ask(attempt, {
      kind: "manifest",
      method: "GET",
      path: `manifests/${name}`,
      accept: ACCEPT,
      maxBytes: MANIFEST_LIMITS.maxBytes,
    });
    const stated = statedDigest(headers, host);
    if (stated !== undefined) checked(bytes, stated, host);
    if (isCheckable(name)) checked(bytes, name, host);
    const digest = isCheckable(name) ? name : (stated ?? digestOf(bytes));
    const type = headers["content-type"];
    return { bytes, digest, mediaType: typeof type === "string" ? type : "" };
  }

  async #head(attempt: Attempt, reference: ImageReference): Promise<string | undefined> {
    const { host } = attempt.endpoint;
    const answer = await this.#ask(
      attempt,
      { kind: "head", method: "HEAD", path: `manifests/${nameOf(reference)}`, accept: ACCEPT, maxBytes: 0 },
      // Some registries do not support HEAD.
      (status) => status === 405 || status === 501,
    );
    const stated = statedDigest(answer.headers, host);
    if (answer.status > 299 || stated === undefined) return undefined;
    if (reference.digest !== undefined && stated !== reference.digest) throw otherDigest(host);
    return stated;
  }

  /** @throws ExchangeError for every error status, except those that `fine` accepts. */
  async #ask(
    attempt: Attempt,
    { path, ...what }: Pick<Exchange, "kind" | "method" | "accept" | "maxBytes"> & { readonly path: string },
    fine: (status: number) => boolean = () => false,
  ): Promise<Answer> {
    const { endpoint, repository, deadline } = attempt;
    const url = `${endpoint.origin}/v2/${repository}/${path}${endpoint.query}`;
    const send = (authorization: string | undefined): Promise<Answer> =>
      this.#transport.send({ ...what, endpoint, url, byPublic: false, authorization }, deadline.signal);
    const tried = await this.#authorizer.before(attempt, deadline);
    let answer = await send(tried.header);
    if (answer.status === 401 && !answer.elsewhere) {
      const next = await this.#authorizer.after(attempt, answer, tried, deadline);
      if (next !== undefined) answer = await send(next.header);
    }
    if ((answer.status >= 200 && answer.status < 300) || fine(answer.status)) return answer;
    throw refusal(answer, endpoint.host, this.#clock.now());
  }
}

/** The caller's credentials go to the registry only; a mirror has its own. */
function credentialsFor(endpoint: Endpoint, { credentials }: ReadOptions): readonly RegistryCredential[] {
  return (endpoint.credentials === "registry" ? credentials : endpoint.credentials).slice(0, MAX_CREDENTIALS);
}

/** With no credentials, asks once without. A refusal leads to the next: some registries deny hidden images. */
async function withEach<T>(
  credentials: readonly RegistryCredential[],
  ask: (credential: RegistryCredential | undefined) => Promise<T>,
): Promise<T> {
  const rest = [...credentials];
  for (;;) {
    const credential = rest.shift();
    try {
      return await ask(credential);
    } catch (error) {
      const next = error instanceof ExchangeError && error.refused && rest.length > 0;
      if (!next || !/^(unauthorized|forbidden|notFound)$/.test(error.kind)) throw error;
    }
  }
}

/** Rejects names that would lead out of the URL path, because any caller may have made the reference. */
function checkName(reference: ImageReference): void {
  const { repository, tag, digest } = reference;
  const repositoryFits = /^[a-z0-9][a-z0-9._/-]*$/.test(repository) && !/\/\.|\.\.|\/\//.test(repository);
  const tagFits = tag === undefined || /^\w[\w.-]{0,127}$/.test(tag);
  const digestFits = digest === undefined || isCheckable(digest);
  if (!repositoryFits || !tagFits || !digestFits || (tag ?? digest) === undefined)
    throw new ExchangeError("invalidName", "it is not an image name");
}

/** The digest takes precedence over the tag. */
function nameOf({ tag, digest }: ImageReference): string {
  return digest ?? tag ?? "";
}

function statedDigest(headers: Answer["headers"], host: string): string | undefined {
  const stated = headers["docker-content-digest"];
  if (stated === undefined) return undefined;
  if (typeof stated === "string" && isCheckable(stated)) return stated;
  throw new ExchangeError("malformed", `${host} names it by a digest that is not valid`);
}

function checked(bytes: Buffer, digest: string, host: string): Buffer {
  if (!hasDigest(bytes, digest)) throw otherDigest(host);
  return bytes;
}

function otherDigest(host: string): ExchangeError {
  return new ExchangeError("malformed", `the answer of ${host} does not match its digest`);
}
