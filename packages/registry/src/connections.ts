/** The connections of a client: one bounded pool to each server, and none by way of undici's global dispatcher. */
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { buildConnector, Pool } from "undici";
import { AddressGuard } from "./address-guard.ts";
import { NameLookups } from "./name-lookups.ts";
import { RecentMap } from "./recent-map.ts";

/** Requests under way to one server; the others wait. As many as a browser would have. */
const CONNECTIONS_PER_SERVER = 6;
/** Images may name any host. Beyond this many, the pool not used for the longest is closed. */
const MAX_SERVERS = 64;
/** Less than the 5 s after which servers of Node, among others, hang up on an idle connection. */
const IDLE_MS = 4_000;
/** 16 KiB: what nginx and Node allow themselves. Tokens are sent, not received, in headers. */
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_AUTHORITIES = 64;

export interface ConnectionsOptions {
  /** For resolving a name, for connecting, and for the TLS handshake, each. */
  readonly connectMs: number;
  /** Origins that the configuration lists: they may be at any address. */
  readonly listed: ReadonlySet<string>;
  readonly guard?: AddressGuard;
  readonly names?: NameLookups;
}

/** A server with its connections. */
export interface Server {
  readonly pool: Pool;
  /** A connection was made to a public address of it. Stays so. */
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

  /** The configuration lists this origin. */
  isListed(origin: string): boolean {
    return this.#options.listed.has(origin);
  }

  /**
   * Connections are never shared between two ideas of trust, nor between two rules on addresses.
   *
   * @param ca PEM to trust besides the system's authorities.
   * @param byPublic a server at a public address named this one: unless it is listed, it must not be at a private one.
   */
  to(origin: string, ca: string | undefined, byPublic: boolean): Server {
    const key = `${origin} ${byPublic} ${ca ?? ""}`;
    const existing = this.#servers.get(key);
    if (existing !== undefined) return existing;
    const pool = new Pool(origin, {
      connections: CONNECTIONS_PER_SERVER,
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      // Requests have deadlines of their own, to the millisecond.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: this.#connector(origin, ca, byPublic, () => server),
    });
    const server: Server = { pool, isPublic: false };
    this.#servers.set(key, server);
    return server;
  }

  /** Ends what is under way. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#servers.values()].map(({ pool }) => pool.destroy()));
    await Promise.allSettled(this.#closing);
  }

  /** Every socket of this package is opened here. `tls.connect` ignores a block list, so TLS starts on a socket that has one. */
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

  /** Made once: reading the system's authorities takes longer than a request. */
  #trusting(ca: string): SecureContext {
    const existing = this.#contexts.get(ca);
    if (existing !== undefined) return existing;
    const context = createSecureContext({ ca: [...getCACertificates("default"), ca] });
    this.#contexts.set(ca, context);
    return context;
  }

  /** Requests under way keep their connection until they end. */
  #retire(pool: Pool): void {
    const closed = pool.close().finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }
}
