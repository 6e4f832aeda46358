/** Shared by the HTTP servers of the runtime: limits for clients, listening, and a bounded stop. */
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { parseBindAddress } from "./bind-address.ts";
import { type Clock, sleep } from "./clock.ts";
import type { Logger } from "./log.ts";

/** A whole answer, without streaming. */
export interface Reply {
  readonly status: number;
  readonly body: string;
  /** Default `text/plain; charset=utf-8`. */
  readonly contentType?: string;
  /** For 405: the methods that are served, as in the header `allow`. */
  readonly allow?: string;
}

/** Gets each request. Must not throw. */
export type RequestListener = (request: IncomingMessage, response: ServerResponse) => void;

/** Where to listen, and the limits for clients. */
export interface HttpListenerOptions<S extends Server> {
  /** For log lines: `probe server`. */
  readonly name: string;
  /** See `parseBindAddress`. */
  readonly bindAddress: string;
  /** `createServer` of node:http or node:https, with its further options. */
  readonly create: (limits: ServerOptions, onRequest: RequestListener) => S;
  readonly onRequest: RequestListener;
  /** Time for a client to send a whole request, ms. After it the server answers 408 and closes the connection. */
  readonly requestTimeoutMs: number;
  /** Time for the headers alone, ms. Default `requestTimeoutMs`. */
  readonly headersTimeoutMs?: number;
  /** How long a connection may stay open without a request, ms. */
  readonly keepAliveTimeoutMs: number;
  /** Connections above this number are closed as they arrive. */
  readonly maxConnections: number;
  /** How long requests may take to end once the listener is disposed of, ms. */
  readonly drainMs: number;
  /**
   * Once disposed of, a connection is closed by its next answer, and without one when no request has come for so long,
   * ms. A connection that is closed while its client sends a request costs that request. Default 0.
   */
  readonly quietMs?: number;
  readonly log: Logger;
  readonly clock: Clock;
}

/** A server that listens. Disposing stops accepting at once, gives requests `drainMs` to end, then cuts them off. */
export interface HttpListener<S extends Server> extends AsyncDisposable {
  readonly server: S;
  /** Disposing has begun, so an answer should close its connection. */
  readonly closing: boolean;
}

/** Bytes of all header lines of a request; probes, scrapes and the API server need a few hundred. */
const MAX_HEADER_BYTES = 8 * 1024;

/**
 * Starts a server and resolves when it listens, with `undefined` when the address is off. It does not keep the process
 * running.
 * @throws RangeError for an invalid address, and the system's error when listening fails.
 */
export async function startHttpListener<S extends Server>(
  options: HttpListenerOptions<S>,
): Promise<HttpListener<S> | undefined> {
  const { bindAddress, name, log, requestTimeoutMs, headersTimeoutMs = requestTimeoutMs } = options;
  const address = parseBindAddress(bindAddress);
  if (address === undefined) return undefined;
  const limits: ServerOptions = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.ceil(headersTimeoutMs / 5),
    keepAliveTimeout: options.keepAliveTimeoutMs,
  };
  let usedMs = Number.NEGATIVE_INFINITY;
  const { clock, quietMs = 0 } = options;
  const server = options.create(limits, (request, response) => {
    usedMs = clock.monotonic();
    options.onRequest(request, response);
  });
  server.maxConnections = options.maxConnections;
  server.unref();
  const sockets = trackSockets(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(address, () => {
      server.off("error", reject);
      resolve();
    });
  });
  server.on("error", (error) => log.error(`a ${name} failed`, { bindAddress, error }));
  let closing: Promise<void> | undefined;
  return {
    server,
    get closing() {
      return closing !== undefined;
    },
    [Symbol.asyncDispose]: () =>
      (closing ??= close(server, sockets, {
        ...options,
        isQuiet: () => clock.monotonic() - usedMs >= quietMs,
      })),
  };
}

/** The open connections. Node's own list omits those that are still in their TLS handshake. */
function trackSockets(server: Server): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  return sockets;
}

/** How often a server that closes looks whether it is quiet, ms. */
const LOOK_MS = 20;

async function close(
  server: Server,
  sockets: ReadonlySet<Socket>,
  options: { readonly clock: Clock; readonly drainMs: number; readonly isQuiet: () => boolean },
): Promise<void> {
  const { clock, drainMs, isQuiet } = options;
  const drained = new AbortController();
  const closed = new Promise<void>((resolve) => server.once("close", resolve));
  const cutOff = sleep(clock, drainMs, drained.signal).then(() =>
    sockets.forEach((socket) => void socket.destroy()),
  );
  // It stops to accept. Node's own for HTTP also closes the connections that look idle.
  NetServer.prototype.close.call(server);
  while (sockets.size > 0 && !isQuiet()) await sleep(clock, LOOK_MS);
  server.close();
  await closed;
  drained.abort();
  await cutOff;
}

/** Writes the headers of an answer, and closes the connection after it if asked. The caller writes the body. */
export function writeReplyHead(response: ServerResponse, reply: Reply, closeAfterwards: boolean): void {
  const { status, body, contentType = "text/plain; charset=utf-8", allow } = reply;
  response.writeHead(status, {
    "content-type": contentType,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...(allow !== undefined && { allow }),
    ...(closeAfterwards && { connection: "close" }),
  });
}

/**
 * The URL of a listening server on this machine: `http://127.0.0.1:8080`.
 * @throws TypeError when it does not listen on a port.
 */
export function urlOf(server: Server, scheme: "http" | "https"): string {
  const address = server.address();
  if (address === null || typeof address === "string")
    throw new TypeError("the server does not listen on a port");
  const host = address.address === "::" || address.address === "0.0.0.0" ? "127.0.0.1" : address.address;
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}
