/** The connections of a client: one bounded pool per server, never undici's global dispatcher. */
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { buildConnector, type Dispatcher, Pool, ProxyAgent } from "undici";
import { AddressGuard } from "./address-guard.ts";
import { NameLookups } from "./name-lookups.ts";
import { RecentMap } from "./recent-map.ts";

/** Requests in flight to one server, as many as a browser has. The others wait. */
const CONNECTIONS_PER_SERVER = 6;
/** Images can name any host. Above this number, the least recently used pool is closed. */
const MAX_SERVERS = 64;
/** Shorter than the 5 s after which many servers, such as Node's, close an idle connection. */
const IDLE_MS = 4_000;
/** 16 KiB: the limit of nginx and Node. Headers received hold no tokens; only those sent do. */
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_AUTHORITIES = 64;

const POOL = {
  connections: CONNECTIONS_PER_SERVER,
  pipelining: 1,
  allowH2: false,
  keepAliveTimeout: IDLE_MS,
  keepAliveMaxTimeout: IDLE_MS,
  maxHeaderSize: MAX_HEADER_BYTES,
  // Requests have their own deadlines, exact to the millisecond.
  headersTimeout: 0,
  bodyTimeout: 0,
} as const;

export interface ConnectionsOptions {
  /** Time limit of name resolution, of the connection, and of the TLS handshake, each. */
  readonly connectMs: number;
  /** Origins that the configuration lists. They may have any address. */
  readonly listed: ReadonlySet<string>;
  /** The URL of the proxy for an origin. Default: none. */
  readonly proxyFor?: ProxyFor;
  readonly guard?: AddressGuard;
  readonly names?: NameLookups;
}

/** The URL of the HTTP proxy for a server, with a user and password or none; `undefined`: none. */
export type ProxyFor = (server: URL) => string | undefined;

/** A server and its connections. */
export interface Server {
  readonly pool: Dispatcher;
  /** Host and port of the proxy that the connections go through. */
  readonly proxy?: string;
  /** Set by the first connection to a public address of it, and never reset. */
  isPublic: boolean;
}

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #guard: AddressGuard;
  readonly #names: NameLookups;
  readonly #servers: RecentMap<string, Server>;
  readonly #contexts: RecentMap<string, SecureContext> = new RecentMap(MAX_AUTHORITIES);
  readonly #closing: Set<Promise<void>> = new Set();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#guard = options.guard ?? new AddressGuard();
    this.#names = options.names ?? new NameLookups(options.connectMs);
    this.#servers = new RecentMap(MAX_SERVERS, ({ pool }) => this.#retire(pool));
  }

  /** Whether the configuration lists this origin. */
  isListed(origin: string): boolean {
    return this.#options.listed.has(origin);
  }

  /**
   * Requests with different trusted authorities or different address rules never share a connection.
   *
   * A proxy resolves names, so addresses behind it are unknown, and count as public. Only a URL with an address can be
   * refused here.
   *
   * @param ca PEM to trust besides the system's authorities.
   * @param byPublic a server at a public address named this one, so it must not be private unless it is listed.
   */
  to(origin: string, ca: string | undefined, byPublic: boolean): Server {
    const key = `${origin} ${byPublic} ${ca ?? ""}`;
    const existing = this.#servers.get(key);
    if (existing !== undefined) return existing;
    const proxy = this.#options.proxyFor?.(new URL(origin));
    const connect = this.#connector(origin, ca, byPublic, () => server);
    const server: Server =
      proxy === undefined
        ? { pool: new Pool(origin, { ...POOL, connect }), isPublic: false }
        : this.#through(proxy, origin, ca, byPublic);
    this.#servers.set(key, server);
    return server;
  }

  /** @throws Error `ERR_IP_BLOCKED`, as a direct connection does. */
  #through(proxy: string, origin: string, ca: string | undefined, byPublic: boolean): Server {
    const address = new URL(origin).hostname.replace(/^\[|\]$/g, "");
    if (!this.isListed(origin) && this.#guard.isBlocked(address, byPublic))
      throw Object.assign(new Error("the address is blocked"), { code: "ERR_IP_BLOCKED" });
    const timeout = this.#options.connectMs;
    const pool = new ProxyAgent({
      ...POOL,
      uri: proxy,
      requestTls: { allowH2: false, ...(ca === undefined ? {} : { secureContext: this.#trusting(ca) }) },
      proxyTls: { allowH2: false },
      connectTimeout: timeout,
      // A proxy that does not answer CONNECT counts as one that cannot be reached.
      clientFactory: (url, inherited) => new Pool(url, { ...inherited, headersTimeout: timeout }),
    });
    return { pool, isPublic: true, proxy: new URL(proxy).host };
  }

  /** Ends the requests in flight. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#servers.values()].map(({ pool }) => pool.destroy()));
    await Promise.allSettled(this.#closing);
  }

  /** Opens every socket here. `tls.connect` ignores a block list, so TLS starts on a socket that has one. */
  #connector(
    origin: string,
    ca: string | undefined,
    byPublic: boolean,
    server: () => Server,
  ): buildConnector.connector {
    const common = { allowH2: false, timeout: this.#options.connectMs };
    const blockList = byPublic ? this.#guard.ofPublic : this.#guard.ofImages;
    const open = buildConnector({
      ...common,
      lookup: this.#names.lookup,
      ...(this.isListed(origin) ? {} : { blockList }),
    });
    const secure = buildConnector({
      ...common,
      ...(ca === undefined ? {} : { secureContext: this.#trusting(ca) }),
    });
    return (options, done) => {
      const isSecure = options.protocol === "https:";
      const port = options.port === "" && isSecure ? "443" : options.port;
      open({ ...options, port, protocol: "http:" }, (error, socket) => {
        if (error !== null) return done(error, null);
        if (this.#guard.isPublic(socket.remoteAddress)) server().isPublic = true;
        if (isSecure) secure({ ...options, httpSocket: socket }, done);
        else done(null, socket);
      });
    };
  }

  /** Made once, because reading the system's authorities takes longer than a request. */
  #trusting(ca: string): SecureContext {
    const existing = this.#contexts.get(ca);
    if (existing !== undefined) return existing;
    const context = createSecureContext({ ca: [...getCACertificates("default"), ca] });
    this.#contexts.set(ca, context);
    return context;
  }

  /** Requests in flight keep their connection until they end. */
  #retire(pool: Dispatcher): void {
    const closed = pool.close().finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }
}
