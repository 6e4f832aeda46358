/** The connections of a client: one bounded pool to each server, and none by way of undici's global dispatcher. */
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { buildConnector, Pool } from "undici";
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

export class Connections {
  readonly #connectMs: number;
  readonly #names: NameLookups;
  readonly #pools: RecentMap<string, Pool>;
  readonly #contexts: RecentMap<string, SecureContext> = new RecentMap(MAX_AUTHORITIES);
  readonly #closing: Set<Promise<void>> = new Set();

  constructor(connectMs: number) {
    this.#connectMs = connectMs;
    this.#names = new NameLookups(connectMs);
    this.#pools = new RecentMap(MAX_SERVERS, (pool) => this.#retire(pool));
  }

  /** @param ca PEM to trust besides the system's authorities. A pool is never shared between two ideas of trust. */
  to(origin: string, ca: string | undefined): Pool {
    const key = `${origin} ${ca ?? ""}`;
    const existing = this.#pools.get(key);
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
      connect: buildConnector({
        allowH2: false,
        timeout: this.#connectMs,
        lookup: this.#names.lookup,
        ...(ca === undefined ? {} : { secureContext: this.#trusting(ca) }),
      }),
    });
    this.#pools.set(key, pool);
    return pool;
  }

  /** Ends what is under way. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#pools.values()].map((pool) => pool.destroy()));
    await Promise.allSettled(this.#closing);
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
