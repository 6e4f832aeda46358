/** One request to one server with its redirects, and the limits on their targets, time and size. */
import type { Dispatcher } from "undici";
import { Connections, type ConnectionsOptions, type Server } from "./connections.ts";
import { Deadline } from "./deadline.ts";
import type { Endpoint } from "./endpoints.ts";
import { ExchangeError, reasonOf, reasonThroughProxy } from "./exchange-error.ts";

/** The purpose of a request. */
export type RequestKind = "manifest" | "head" | "blob" | "token";

/** One request on the wire; each redirect is one more. */
export interface RegistryRequest {
  /** The host and port, as in `RegistryError.registry`. Images can name any host, so it is no metric label. */
  readonly registry: string;
  readonly kind: RequestKind;
  /** Absent without an answer. */
  readonly status?: number;
  /** Why the answer is missing or incomplete. For the operator only: it could show a tenant which ports listen. */
  readonly why?: string;
}

export interface Exchange {
  readonly kind: RequestKind;
  /** The endpoint whose rules on plain http and certificates apply. */
  readonly endpoint: Endpoint;
  readonly method: "GET" | "HEAD" | "POST";
  readonly url: string;
  /** A server at a public address gave the URL. */
  readonly byPublic: boolean;
  readonly accept: string;
  readonly authorization: string | undefined;
  /** Form of a POST. */
  readonly form?: string;
  /** Limit of a successful answer. A longer one is not read to the end. */
  readonly maxBytes: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Empty unless the status is 2xx. */
  readonly bytes: Buffer;
  /** Another server than the one asked sent it, and so without credentials. */
  readonly elsewhere: boolean;
  /** A server at a public address was involved. */
  readonly fromPublic: boolean;
}

export interface TransportOptions extends Omit<ConnectionsOptions, "connectMs"> {
  readonly userAgent: string;
  /** Time limit of each request. */
  readonly requestMs: number;
  readonly onRequest: (request: RegistryRequest) => void;
}

const MAX_REDIRECTS = 8;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Limit of an error body, which is read and dropped so that the connection can be used again. */
const MAX_IGNORED_BYTES = 64 * 1024;

export class Transport {
  readonly #options: TransportOptions;
  readonly #connections: Connections;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#connections = new Connections({ ...options, connectMs: options.requestMs });
  }

  /**
   * Sends the request and follows redirects of a GET or HEAD. It follows at most 8, none twice, and from https only to
   * https. Credentials go only to the origin that they are for. A server at a public address cannot redirect to a
   * private address, unless the configuration lists that one.
   *
   * @throws ExchangeError `unreachable`, `malformed` or `aborted`. An error status does not throw.
   */
  async send(exchange: Exchange, signal: AbortSignal): Promise<Answer> {
    let url = new URL(exchange.url);
    let elsewhere = false;
    let fromPublic = exchange.byPublic;
    const seen = new Set<string>();
    for (let hops = 0; ; hops++) {
      if (hops > MAX_REDIRECTS) throw astray(exchange, `redirects more than ${MAX_REDIRECTS} times`);
      seen.add(url.href);
      const authorization = elsewhere ? undefined : exchange.authorization;
      const { isPublic, ...answer } = await this.#once(exchange, url, fromPublic, authorization, signal);
      fromPublic ||= isPublic;
      if (!REDIRECTS.has(answer.status) || exchange.method === "POST")
        return { ...answer, elsewhere, fromPublic };
      const next = targetOf(answer, url, exchange);
      if (seen.has(next.href)) throw astray(exchange, "redirects in a circle");
      elsewhere ||= next.origin !== url.origin;
      url = next;
    }
  }

  /** Whether the configuration lists this origin. */
  isListed(origin: string): boolean {
    return this.#connections.isListed(origin);
  }

  async close(): Promise<void> {
    await this.#connections.close();
  }

  async #once(
    exchange: Exchange,
    url: URL,
    byPublic: boolean,
    authorization: string | undefined,
    signal: AbortSignal,
  ): Promise<Omit<Answer, "elsewhere" | "fromPublic"> & Pick<Server, "isPublic">> {
    using deadline = new Deadline(this.#options.requestMs, signal);
    let status: number | undefined;
    let failure: ExchangeError | undefined;
    let server: Server | undefined;
    try {
      server = this.#connections.to(url.origin, exchange.endpoint.ca, byPublic);
      const response = await this.#dispatch(exchange, url, server, authorization, deadline);
      status = response.statusCode;
      const { headers, body } = response;
      // Without this listener an error of a body that is no longer read would end the process.
      body.on("error", () => undefined);
      const { isPublic } = server;
      if (status >= 200 && status < 300)
        return { status, headers, bytes: await readWhole(response, exchange, deadline), isPublic };
      await deadline.race(body.dump({ limit: MAX_IGNORED_BYTES })).catch(() => body.destroy());
      return { status, headers, bytes: Buffer.alloc(0), isPublic };
    } catch (cause) {
      const { proxy } = server ?? {};
      failure = this.#failureOf(cause, exchange, { url, proxy }, signal.aborted, deadline.passed);
      throw failure;
    } finally {
      this.#options.onRequest({
        registry: url.host,
        kind: exchange.kind,
        ...(status === undefined ? {} : { status }),
        ...(failure === undefined ? {} : { why: failure.why }),
      });
    }
  }

  #failureOf(
    cause: unknown,
    { endpoint }: Exchange,
    { url: { host, origin }, proxy }: { readonly url: URL; readonly proxy: string | undefined },
    aborted: boolean,
    late: boolean,
  ): ExchangeError {
    if (aborted) return new ExchangeError("aborted", `${host} had not answered when the lookup ended`);
    if (cause instanceof ExchangeError) return cause;
    const silent = `does not answer within ${this.#options.requestMs / 1000} s`;
    const reason = proxy === undefined ? reasonOf(cause) : reasonThroughProxy(cause, proxy);
    const why = late ? `${silent}${proxy === undefined ? "" : ` through the proxy ${proxy}`}` : reason;
    return new ExchangeError("unreachable", `${host} ${why}`, { elsewhere: origin !== endpoint.origin });
  }

  async #dispatch(
    exchange: Exchange,
    url: URL,
    { pool }: Server,
    authorization: string | undefined,
    deadline: Deadline,
  ): Promise<Dispatcher.ResponseData> {
    deadline.signal.throwIfAborted();
    const response = pool.request({
      origin: url.origin,
      method: exchange.method,
      path: url.pathname + url.search,
      headers: {
        accept: exchange.accept,
        "accept-encoding": "identity",
        "user-agent": this.#options.userAgent,
        ...(authorization === undefined ? {} : { authorization }),
        ...(exchange.form === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" }),
      },
      body: exchange.form ?? null,
      signal: deadline.signal,
    });
    // undici notices the signal only once the request has a connection.
    return deadline.race(response, ({ body }) => void body.on("error", () => undefined).destroy());
  }
}

/** Why a server under these rules may not redirect to a URL, as half a sentence; `undefined` when it may. */
export function whyNotFollow(url: URL, endpoint: Endpoint): string | undefined {
  if (url.protocol !== "https:" && url.protocol !== "http:") return "to a target that is not an http(s) URL";
  if (url.username !== "" || url.password !== "") return "to a URL with a password in it";
  return url.protocol === "http:" && !endpoint.plainHttp ? "from https to plain http" : undefined;
}

function targetOf(answer: Pick<Answer, "headers">, from: URL, exchange: Exchange): URL {
  const location = answer.headers["location"];
  if (typeof location !== "string" || !URL.canParse(location, from.href))
    throw astray(exchange, "redirects without a target");
  const next = new URL(location, from);
  next.hash = "";
  // After https no request goes back to http, whatever the rules of the registry are.
  const downgraded = from.protocol === "https:" && next.protocol === "http:";
  const why = downgraded ? "from https to plain http" : whyNotFollow(next, exchange.endpoint);
  if (why !== undefined) throw astray(exchange, `redirects ${why}`);
  return next;
}

function astray({ endpoint }: Exchange, what: string): ExchangeError {
  return new ExchangeError("malformed", `${endpoint.host} ${what}`);
}

async function readWhole(
  { headers, body }: Dispatcher.ResponseData,
  exchange: Exchange,
  deadline: Deadline,
): Promise<Buffer> {
  const refuse = (what: string): ExchangeError => {
    body.destroy();
    return new ExchangeError("malformed", `${exchange.endpoint.host} answers ${what}`);
  };
  const { maxBytes } = exchange;
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity" && exchange.method !== "HEAD")
    throw refuse("with compressed content, which was not asked for");
  if (exchange.method !== "HEAD" && Number(headers["content-length"] ?? 0) > maxBytes)
    throw refuse(`with more than ${maxBytes} bytes`);
  const read = async (): Promise<Buffer> => {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of body) {
      const bytes: Buffer = chunk;
      size += bytes.length;
      if (size > maxBytes) throw refuse(`with more than ${maxBytes} bytes`);
      chunks.push(bytes);
    }
    return Buffer.concat(chunks, size);
  };
  return deadline.race(read());
}
