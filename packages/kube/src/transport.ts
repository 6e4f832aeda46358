/**
 * One cluster, one credential: HTTP/2 for reads and watches, and a bounded HTTP/1.1 pool for writes. Measured on a real
 * API server, small patches are faster over several HTTP/1.1 connections than as streams of one HTTP/2 connection. Up
 * to a hundred watches and reads share one. This file handles sockets, deadlines, credentials and Retry-After;
 * `rest-client.ts` gives requests their meaning.
 */
import { performance } from "node:perf_hooks";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { Dispatcher } from "undici";
import { type BodyReader, wholeBody } from "./body-reader.ts";
import { type ConnectionPools, createConnectionPools } from "./connection-pools.ts";
import type { Credential, CredentialMaterial } from "./credential.ts";
import { Deadline } from "./deadline.ts";
import { exchange, TooLong } from "./exchange.ts";
import { ApiError, type ApiFailure, type RequestInfo } from "./failure.ts";
import { readBounded, toApiError } from "./status.ts";
import { warningsIn } from "./warning-header.ts";

export interface TransportOptions {
  /** `https://host:port`, or `http://` for a loopback address. A path prefix is kept. */
  readonly server: string;
  /** PEM; absent: the system's certificate authorities. */
  readonly ca?: string;
  /** Name to verify the server certificate against, when it is not the host of `server`. */
  readonly serverName?: string;
  /** Do not verify the server certificate. Only users set it, never Berth itself. */
  readonly insecure?: boolean;
  /** URL of an HTTP proxy (`http://` or `https://`, with a user and password or none). Default: none. */
  readonly proxy?: string;
  /** The user that the requests are for. The credential needs the permission to impersonate it. */
  readonly impersonate?: Impersonation;
  readonly credential: Credential;
  readonly userAgent: string;
  /** A connection silent for this long is dead. Default 30,000 ms; pings are sent three times as often. */
  readonly silenceMs?: number;
  /** Connections for writes, and so the number of writes in flight. Default 16. */
  readonly maxWriteConnections?: number;
  /**
   * Reads wait for each other, on one HTTP/1.1 connection. It takes half the memory: for clients that ask now and then and
   * watch nothing, as a watch would hold up all reads. Default false.
   */
  readonly readsOneByOne?: boolean;
  /** A longer answer is an error. Bytes, default 400 MiB; streams have no limit but that of one event. */
  readonly maxAnswerBytes?: number;
  /**
   * Called with each warning of the API server: a deprecated API, a field that it dropped, a policy. Texts of others may
   * stand in it. Must be quick and not throw. Default: warnings are not read.
   */
  readonly onWarning?: (text: string, request: RequestInfo) => void;
  /** Called after each attempt of a request, answered or not: for metrics. Must be quick and not throw. */
  readonly onAnswer?: (request: RequestInfo, outcome: RequestOutcome, tookMs: number) => void;
}

/** A user that requests are for, as the API server describes one. */
export interface Impersonation {
  readonly user: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** `ok`, or the kind of failure. For a watch: how it began. */
export type RequestOutcome = "ok" | ApiFailure["kind"];

export interface TransportRequest {
  readonly info: RequestInfo;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query. */
  readonly path: string;
  readonly body?: Buffer;
  readonly contentType?: string;
  /** The media type wanted; default `application/json`. */
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Aborts when the client of the request is closed. */
  readonly closing: AbortSignal;
  /** For the whole answer; for a stream, until it has begun. Milliseconds. */
  readonly timeoutMs: number;
  /** A 429 is the answer (evictions), not a request to slow down. */
  readonly keepTooManyRequests?: boolean;
}

/** Sends once. @returns what the server's success is to the caller, or its refusal. */
type Attempt<R> = (dispatcher: Dispatcher, options: Dispatcher.RequestOptions) => Promise<R | ApiError>;

/** A body that is still arriving. `deadline.abort()` ends it. */
export interface OpenedStream {
  readonly body: Readable;
  /** `""` when the server does not say. */
  readonly contentType: string;
  readonly deadline: Deadline;
}

/** Retries of a server that keeps answering 429, before the caller gets the error (client-go: 10). */
const MAX_RETRY_AFTER = 5;
export class Transport {
  readonly origin: string;
  /** The path of `server`; `""` for none. */
  readonly prefix: string;
  readonly #options: TransportOptions;
  readonly #impersonation: Readonly<Record<string, string | string[]>>;
  readonly #closing = new AbortController();
  #connections: ConnectionPools | undefined;
  #openSockets = 0;

  /** @throws TypeError when `server` is no URL, or not https and not on this machine. */
  constructor(options: TransportOptions) {
    const url = new URL(options.server);
    if (!isConfidential(url))
      throw new TypeError(`${url.origin} is not https: credentials would be readable`);
    this.origin = url.origin;
    this.prefix = url.pathname.replace(/\/+$/, "");
    this.#options = options;
    this.#impersonation = toHeaders(options.impersonate);
  }

  get openSockets(): number {
    return this.#openSockets;
  }

  /**
   * Sends the request and resolves with what `decode` makes of a success. A 401 is retried with one fresh credential, a
   * 429 or 503 with Retry-After after a wait, all within the deadline.
   *
   * What waited for the answer is old by then, and V8 collects it late, with all that it refers to. So nothing of it
   * refers to bytes: neither a promise nor the reader.
   *
   * @param decode does not throw.
   * @param reader gives `decode` its bytes. Default: the whole body.
   * @throws ApiError for everything else.
   */
  async send<R>(
    request: TransportRequest,
    decode: (body: Buffer) => R,
    reader: BodyReader = wholeBody(),
  ): Promise<R> {
    using deadline = this.#deadlineOf(request);
    const { maxAnswerBytes, onWarning } = this.#options;
    const onHeaders = onWarning && ((headers: Headers) => tellWarnings(headers, request.info, onWarning));
    await this.#accepted(request, deadline, async (dispatcher, options) => {
      const refusal = await exchange(dispatcher, options, deadline.signal, reader, maxAnswerBytes, onHeaders);
      return refusal && toApiError(refusal, refusal.body, request.info);
    });
    return decode(reader.end());
  }

  /** As `send`, but resolves when the answer has begun. @param streamMs its deadline from then on. */
  async open(request: TransportRequest, streamMs: number): Promise<OpenedStream> {
    const deadline = this.#deadlineOf(request);
    try {
      const opened = await this.#accepted(request, deadline, async (dispatcher, options) => {
        const response = dispatcher.request({ ...options, signal: deadline.signal });
        // undici notices the signal only once the request has a connection. A request that waits for a free stream, or
        // for the connection, would outlive its deadline.
        const answer = await deadline.race(response, discard);
        const { onWarning } = this.#options;
        if (onWarning !== undefined) tellWarnings(answer.headers, request.info, onWarning);
        if (answer.statusCode < 300) return answer;
        return toApiError(answer, await readBounded(answer.body), request.info);
      });
      deadline.restart(streamMs);
      return { body: opened.body, contentType: String(opened.headers["content-type"] ?? ""), deadline };
    } catch (error) {
      deadline[Symbol.dispose]();
      throw error;
    }
  }

  #deadlineOf({ timeoutMs, signal, closing }: TransportRequest): Deadline {
    return new Deadline(timeoutMs, signal, closing, this.#closing.signal);
  }

  /** Sends with a credential, again where that makes sense, until `attempt` returns a success. */
  async #accepted<R>(request: TransportRequest, deadline: Deadline, attempt: Attempt<R>): Promise<R> {
    let refreshed = false;
    for (let attempts = 1; ; attempts++) {
      const material = await this.#material(request, deadline);
      const answer = await this.#try(request, material, deadline, attempt);
      if (!(answer instanceof ApiError)) return answer;
      const error = answer;
      if (error.failure.kind === "unauthorized" && !refreshed) {
        refreshed = true;
        this.#options.credential.reject(material);
        continue;
      }
      const waitMs = error.retryAfterMs;
      if (waitMs === undefined || error.retry !== "backoff" || request.keepTooManyRequests) throw error;
      if (attempts > MAX_RETRY_AFTER || waitMs >= request.timeoutMs) throw error;
      const waited = await delay(waitMs, true, { signal: deadline.signal }).catch(() => false);
      if (!waited) throw deadline.passed ? error : new ApiError({ kind: "aborted" }, request.info);
    }
  }

  /** One request and its answer, or the server's refusal. @throws ApiError without an answer. */
  async #try<R>(
    request: TransportRequest,
    material: CredentialMaterial,
    deadline: Deadline,
    attempt: Attempt<R>,
  ): Promise<R | ApiError> {
    const startedAt = performance.now();
    const tell = (outcome: RequestOutcome): void =>
      this.#options.onAnswer?.(request.info, outcome, performance.now() - startedAt);
    try {
      const connections = this.#connect(material);
      deadline.signal.throwIfAborted();
      // Nothing with a body over HTTP/2: see docs/decisions/0003.
      const answer = await attempt(request.method === "GET" ? connections.reads : connections.writes, {
        origin: this.origin,
        method: request.method,
        path: this.prefix + request.path,
        headers: this.#headers(request, material),
        body: request.body ?? null,
        headersTimeout: 0,
        bodyTimeout: 0,
      });
      tell(answer instanceof ApiError ? answer.failure.kind : "ok");
      return answer;
    } catch (cause) {
      const error = toConnectionError(cause, request, deadline);
      tell(error.failure.kind);
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    const connections = this.#connections;
    this.#connections = undefined;
    await connections?.end("destroy");
  }

  async #material(request: TransportRequest, deadline: Deadline): Promise<CredentialMaterial> {
    try {
      return await deadline.race(this.#options.credential.material(deadline.signal));
    } catch (cause) {
      if (deadline.signal.aborted) throw toConnectionError(cause, request, deadline);
      const message = cause instanceof Error ? cause.message : undefined;
      throw new ApiError(
        { kind: "credential" },
        request.info,
        message === undefined ? { cause } : { message, cause },
      );
    }
  }

  #headers(request: TransportRequest, material: CredentialMaterial): Record<string, string | string[]> {
    const headers: Record<string, string | string[]> = {
      ...this.#impersonation,
      accept: request.accept ?? "application/json",
      "user-agent": this.#options.userAgent,
    };
    if (request.contentType !== undefined) headers["content-type"] = request.contentType;
    if (material.authorization !== undefined) headers["authorization"] = material.authorization;
    return headers;
  }

  /** The connections for this client certificate and authority. New ones get new connections. */
  #connect({ certificate, ca = this.#options.ca }: CredentialMaterial): ConnectionPools {
    const current = this.#connections;
    if (current && current.certificate?.cert === certificate?.cert && current.ca === ca) return current;
    const {
      serverName,
      insecure = false,
      proxy,
      silenceMs = 30_000,
      maxWriteConnections = 16,
      readsOneByOne,
    } = this.#options;
    const next = createConnectionPools({
      origin: this.origin,
      ca,
      serverName,
      insecure,
      certificate,
      proxy,
      silenceMs,
      maxWriteConnections,
      readsOneByOne,
      // With HTTP/2, undici joins the values of a header (`buildRequestHeaders`), and two groups would be one.
      http2: Object.values(this.#impersonation).every((it) => typeof it === "string" || it.length < 2),
      onOpen: () => {
        this.#openSockets++;
      },
      onClose: () => {
        this.#openSockets--;
      },
    });
    this.#connections = next;
    // Requests in flight keep their old connections until they end.
    void current?.end("close");
    return next;
  }
}

/** As client-go sends them (`transport/round_trippers.go`): the names of extras are percent-encoded. */
function toHeaders(impersonate: Impersonation | undefined): Readonly<Record<string, string | string[]>> {
  if (impersonate === undefined) return {};
  const { user, uid, groups = [], extra = {} } = impersonate;
  return {
    "impersonate-user": user,
    ...(uid === undefined ? {} : { "impersonate-uid": uid }),
    ...(groups.length === 0 ? {} : { "impersonate-group": [...groups] }),
    ...Object.fromEntries(
      Object.entries(extra).map(([key, values]) => [
        `impersonate-extra-${encodeURIComponent(key)}`,
        [...values],
      ]),
    ),
  };
}

/** https, or http that does not leave this machine. URL has already normalised the address: `127.1` is `127.0.0.1`. */
export function isConfidential({ protocol, hostname }: URL): boolean {
  const loopback = hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
  return protocol === "https:" || (protocol === "http:" && loopback);
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

function tellWarnings(
  { warning }: Headers,
  info: RequestInfo,
  onWarning: NonNullable<TransportOptions["onWarning"]>,
): void {
  for (const text of warningsIn(warning)) onWarning(text, info);
}

/** Drops an answer that is no longer awaited. */
function discard(response: Dispatcher.ResponseData): void {
  response.body.on("error", () => undefined).destroy();
}

/** No answer, or only part of it: because of the deadline, the caller, or the connection. */
function toConnectionError(cause: unknown, request: TransportRequest, deadline: Deadline): ApiError {
  if (cause instanceof ApiError) return cause;
  if (cause instanceof TooLong)
    return new ApiError({ kind: "undecodable" }, request.info, { message: cause.message });
  if (deadline.passed) return new ApiError({ kind: "timeout", afterMs: request.timeoutMs }, request.info);
  if (deadline.signal.aborted) return new ApiError({ kind: "aborted" }, request.info);
  const failure: ApiFailure = {
    kind: "unreachable",
    ...(hasCode(cause, (code) => NO_CONNECTION.has(code)) && { noConnection: true }),
    ...(hasCode(cause, (code) => NO_ANSWER.has(code)) && { silent: true }),
    ...(hasCode(cause, (code) => TLS.test(code)) && { tls: true }),
  };
  return new ApiError(failure, request.info, { message: reasonOf(cause), cause });
}

/** The timeouts of connect(2) and of undici. */
const NO_ANSWER: ReadonlySet<string> = new Set(["ETIMEDOUT", "UND_ERR_CONNECT_TIMEOUT"]);
/** Codes of connect(2) and getaddrinfo(3), and undici's connect timeout. */
const NO_CONNECTION: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  ...NO_ANSWER,
]);

/** Codes of a TLS handshake: those of Node, of OpenSSL (`X509_verify_cert_error_string`), and its alerts. */
const TLS =
  /^(?:ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|INVALID_CA$|HOSTNAME_MISMATCH$)/;

/** An AggregateError of several addresses has the code of the first. */
function hasCode(cause: unknown, isWanted: (code: string) => boolean): boolean {
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" && isWanted(cause.code);
}

/** undici has no code for it: the proxy refuses a tunnel, or a request that it forwards. */
const PROXY_STATUS = /^Proxy (?:response|Authentication Required) \((\d{3})\)/;

/** The first sentence of a connection error: Node nests the useful one inside an AggregateError. */
export function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const status = PROXY_STATUS.exec(cause.message)?.[1];
  if (status !== undefined)
    return `the proxy answers with status ${status}${status === "407" ? ": it wants a login" : ""}`;
  if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return cause.errors[0].message;
  return cause.message === "" ? cause.name : cause.message;
}
