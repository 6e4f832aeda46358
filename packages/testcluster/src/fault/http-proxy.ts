import type { IncomingMessage, ServerResponse } from "node:http";
import {
  createSecureServer,
  type Http2SecureServer,
  Http2ServerRequest,
  type Http2ServerResponse,
} from "node:http2";
import type { Socket } from "node:net";
import type { KeyPair } from "../certificates.ts";
import { listenOnLoopback, portOf } from "../ports.ts";
import type { EventAction, RequestAction } from "./actions.ts";
import { ClientSide } from "./client-side.ts";
import { type Conditions, createConditions } from "./conditions.ts";
import {
  type EventHook,
  type EventReply,
  type Interceptor,
  type ObservedRequest,
  type Reply,
  runEventHooks,
  runRequestHooks,
} from "./interceptor.ts";
import { matchesRequest, type RequestMatch, type WatchEventMatch } from "./match.ts";
import {
  type EventJudge,
  type Forwarded,
  isJsonWatch,
  nameOfObject,
  relay,
  type WireEvent,
} from "./relay.ts";
import { type LoggedRequest, RequestLog } from "./request-log.ts";
import { parseRequestTarget } from "./request-target.ts";
import { createEventRule, createRequestRule, type Rule, type RuleOptions } from "./rule.ts";
import { Upstream } from "./upstream.ts";

/** Which server is behind the proxy, and how to be trusted by both sides. */
export interface HttpProxyOptions {
  /** The real API server, `https://host:port`. */
  readonly target: string | URL;
  /** The CA (PEM) that signed the target's serving certificate. */
  readonly ca: string;
  /** What the proxy serves with: issued for 127.0.0.1 by a CA that the clients trust. */
  readonly certificate: KeyPair;
  /** A path, or each that fits, that stands for the target's root: it reaches the target without it. Default none. */
  readonly under?: string | RegExp;
  /** Requests kept in `requests`; the oldest go first. Default 10,000. */
  readonly logLimit?: number;
}

/**
 * Ends TLS in front of an API server and forwards every request, HTTP/2 or HTTP/1.1, with its headers as they are:
 * bearer tokens work, client certificates cannot. Upgrades (exec, port-forward) are not carried.
 */
export interface HttpProxy extends AsyncDisposable {
  readonly port: number;
  /** `https://127.0.0.1:port`. */
  readonly url: string;
  /** Does this to each request that fits, until disposed. Of several rules the one made first is the outer one. */
  on(match: RequestMatch, action: RequestAction, options?: RuleOptions): Rule;
  /** Does this to each event that fits, of watches open now and later. Only JSON watches can be read. */
  onWatchEvent(match: WatchEventMatch, action: EventAction, options?: RuleOptions): Rule;
  /** Sees every request and event, in the order of arrival. The primitive under both kinds of rules. */
  intercept(interceptor: Interceptor): Disposable;
  /** What came, oldest first, bounded by `logLimit`. */
  readonly requests: readonly LoggedRequest[];
  /** How many requests of the log fit. */
  count(match: RequestMatch): number;
  /** Resolves once `count` requests that fit have arrived, those in the log included. */
  until(match: RequestMatch, count: number): Promise<void>;
  /** Watches being relayed now. */
  readonly openStreams: number;
  /** Resolves when so many watches are open. */
  untilOpenStreams(count: number): Promise<void>;
  /** Resets the open watches that fit (default: all). @returns how many. */
  cutStreams(match?: RequestMatch): number;
}

/** @throws (rejects) when the certificate cannot be used or no port can be opened. */
export async function startHttpProxy(options: HttpProxyOptions): Promise<HttpProxy> {
  const proxy = new ApiProxy(options);
  await proxy.listen();
  return proxy;
}

const DEFAULT_LOG_LIMIT = 10_000;
/** Both as kube-apiserver has them by default. */
const KEEP_ALIVE_MS = 90_000;
const MOST_STREAMS_PER_CONNECTION = 100;
/** Node ends a session whose client cancels streams faster than this; a fault that no test asked for. */
const STREAM_RESETS = 1_000_000;

class ApiProxy implements HttpProxy {
  readonly #server: Http2SecureServer;
  readonly #upstream: Upstream;
  readonly #conditions: Conditions = createConditions();
  readonly #log: RequestLog;
  readonly #interceptors: Set<Interceptor> = new Set();
  readonly #streams: Map<ObservedRequest, ClientSide> = new Map();
  readonly #exchanges: Set<Promise<void>> = new Set();
  /** By the client's port, because neither TLS sockets nor HTTP/2 sessions give access to the socket under them. */
  readonly #sockets: Map<number, Socket> = new Map();
  #requestCount = 0;
  #eventCount = 0;
  #mistake: Error | undefined;

  constructor(options: HttpProxyOptions) {
    this.#upstream = new Upstream(new URL(options.target), options.ca, options.under);
    this.#log = new RequestLog(options.logLimit ?? DEFAULT_LOG_LIMIT, this.#conditions);
    this.#server = createSecureServer({
      cert: options.certificate.certificate,
      key: options.certificate.key,
      allowHTTP1: true,
      http1Options: { keepAliveTimeout: KEEP_ALIVE_MS },
      settings: { maxConcurrentStreams: MOST_STREAMS_PER_CONNECTION },
      streamResetBurst: STREAM_RESETS,
      streamResetRate: STREAM_RESETS,
    });
    this.#server.on("connection", (socket: Socket) => this.#track(socket));
    this.#server.on("sessionError", () => {});
    this.#server.on(
      "request",
      (request: IncomingMessage | Http2ServerRequest, response: ServerResponse | Http2ServerResponse) =>
        this.#accept(request, response),
    );
  }

  listen(): Promise<void> {
    return listenOnLoopback(this.#server);
  }

  get port(): number {
    return portOf(this.#server);
  }

  get url(): string {
    return `https://127.0.0.1:${this.port}`;
  }

  get requests(): readonly LoggedRequest[] {
    return this.#log.entries;
  }

  get openStreams(): number {
    return this.#streams.size;
  }

  on(match: RequestMatch, action: RequestAction, options?: RuleOptions): Rule {
    return createRequestRule(this, this.#conditions, match, action, options);
  }

  onWatchEvent(match: WatchEventMatch, action: EventAction, options?: RuleOptions): Rule {
    return createEventRule(this, this.#conditions, match, action, options);
  }

  intercept(interceptor: Interceptor): Disposable {
    const own = { ...interceptor };
    this.#interceptors.add(own);
    return { [Symbol.dispose]: () => this.#interceptors.delete(own) };
  }

  count(match: RequestMatch): number {
    return this.#log.count(match);
  }

  until(match: RequestMatch, count: number): Promise<void> {
    return this.#log.until(match, count);
  }

  untilOpenStreams(count: number): Promise<void> {
    return this.#conditions.until(() => this.#streams.size === count);
  }

  cutStreams(match: RequestMatch = {}): number {
    const found = [...this.#streams].filter(([request]) => matchesRequest(match, request));
    for (const [, client] of found) client.cut("stream");
    return found.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#conditions.close(new Error("the HTTP proxy was closed"));
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets.values()) socket.destroy();
    await closed;
    await Promise.all(this.#exchanges);
    this.#upstream.close();
    if (this.#mistake) throw this.#mistake;
  }

  #track(socket: Socket): void {
    const port = socket.remotePort;
    if (port === undefined) return;
    this.#sockets.set(port, socket);
    // Head and body of an HTTP/1.1 answer are two writes: Nagle would hold the body until the client acknowledges the
    // head, which takes it 40 ms.
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.once("close", () => {
      if (this.#sockets.get(port) === socket) this.#sockets.delete(port);
    });
  }

  #accept(
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
  ): void {
    const port = request.socket.remotePort;
    const socket = port === undefined ? undefined : this.#sockets.get(port);
    const client = new ClientSide(request, response, () => socket?.resetAndDestroy());
    const exchange = this.#exchange(client);
    this.#exchanges.add(exchange);
    void exchange.finally(() => this.#exchanges.delete(exchange));
  }

  /** One request from arrival to the end of its answer. Never rejects. */
  async #exchange(client: ClientSide): Promise<void> {
    const over = new AbortController();
    client.gone.addEventListener("abort", () => over.abort());
    const request = this.#observe(client, over.signal);
    const note = this.#log.add(request);
    client.gone.addEventListener("abort", () => note("gone"));
    try {
      const hooks = [...this.#interceptors].flatMap(({ request }) => request ?? []);
      const isWatch = request.verb === "watch";
      const forward = (): Promise<Reply> => this.#upstream.forward(client, over.signal, isWatch);
      const reply = await runRequestHooks(hooks, request, forward);
      await this.#deliver(client, request, reply, note);
    } catch (error) {
      this.#mistaken(error);
      note("cut");
      client.cut("stream");
    } finally {
      client.body.resume();
      over.abort();
    }
  }

  #observe(client: ClientSide, signal: AbortSignal): ObservedRequest {
    const userAgent = client.headers["user-agent"];
    this.#requestCount += 1;
    return Object.freeze({
      ...parseRequestTarget(client.method, this.#upstream.pathOf(client)),
      path: client.path,
      sequence: this.#requestCount,
      userAgent: typeof userAgent === "string" ? userAgent : "",
      at: performance.now(),
      signal,
    });
  }

  async #deliver(
    client: ClientSide,
    request: ObservedRequest,
    reply: Reply,
    note: (status: number | "cut") => void,
  ): Promise<void> {
    note(reply.kind === "cut" ? "cut" : reply.status);
    if (reply.kind === "cut") client.cut(reply.scope);
    else if (reply.kind === "forwarded") await this.#relay(client, request, reply);
    else {
      client.begin(reply.status, reply.headers);
      client.end(reply.body);
    }
  }

  async #relay(client: ClientSide, request: ObservedRequest, reply: Forwarded): Promise<void> {
    if (request.verb !== "watch" || reply.status !== 200) {
      await relay(client, reply);
      return;
    }
    this.#streams.set(request, client);
    this.#conditions.changed();
    try {
      await relay(client, reply, isJsonWatch(request.verb, reply) ? this.#judgeFor(request) : undefined);
    } finally {
      this.#streams.delete(request);
      this.#conditions.changed();
    }
  }

  #judgeFor(request: ObservedRequest): EventJudge {
    const hooks = (): readonly EventHook[] => [...this.#interceptors].flatMap(({ event }) => event ?? []);
    const judge = async ({ type, object }: WireEvent): Promise<EventReply> => {
      this.#eventCount += 1;
      const objectName = nameOfObject(object);
      try {
        return await runEventHooks(hooks(), {
          sequence: this.#eventCount,
          request,
          type,
          object,
          objectName,
        });
      } catch (error) {
        this.#mistaken(error);
        return { kind: "cut", when: "before" };
      }
    };
    return {
      get wanted() {
        return hooks().length > 0;
      },
      judge,
    };
  }

  #mistaken(error: unknown): void {
    this.#mistake ??= error instanceof Error ? error : new Error(String(error));
  }
}
