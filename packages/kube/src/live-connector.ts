import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { performance } from "node:perf_hooks";
import { TLSSocket } from "node:tls";
import { buildConnector } from "undici";

export interface LiveConnectorOptions {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly servername?: string | undefined;
  readonly rejectUnauthorized?: boolean | undefined;
  /** Offer HTTP/2 before HTTP/1.1 (reads and watches), or only HTTP/1.1 (writes). */
  readonly http2: boolean;
  /**
   * An HTTP/2 connection without a byte received for this long is dead and is destroyed. This works because our side
   * sends a PING more often, and a living peer acknowledges it (RFC 9113 section 6.7). HTTP/1.1 has no PING, so a quiet
   * watch on it does not count as dead.
   */
  readonly silenceMs: number;
  /** Time for TCP and TLS to be established. */
  readonly connectTimeoutMs: number;
  /** Opens the connections, with TLS of its own. Default: undici's connector, with the TLS options above. */
  readonly through?: buildConnector.connector | undefined;
  readonly onOpen: () => void;
  readonly onClose: () => void;
}

/**
 * Connects as undici does, and then monitors the socket. Packets lost without a reset leave a connection that looks
 * open for ever, and undici's own pings do not notice a missing answer.
 */
export function createLiveConnector(options: LiveConnectorOptions): buildConnector.connector {
  const connect = options.through ?? buildConnector(toConnectorOptions(options));
  if (options.http2) surviveStreamErrors();
  return (target, callback) => {
    connect(target, (...result) => {
      const [error, socket] = result;
      if (error !== null) return callback(error, null);
      options.onOpen();
      socket.once("close", options.onClose);
      if (isHttp2(socket)) watchSilence(socket, options.silenceMs);
      callback(null, socket);
    });
  };
}

/**
 * Where an answer begins just after its request was aborted, Node has a second object for the stream, which undici does not know.
 * If the connection then fails, nothing hears its error, and the process would end.
 */
function surviveStreamErrors(): void {
  // Once in a process, however many connectors there are.
  unsubscribe(STREAM_CREATED, hearErrors);
  subscribe(STREAM_CREATED, hearErrors);
}

const STREAM_CREATED = "http2.client.stream.created";

function hearErrors(message: unknown): void {
  (message as { readonly stream: EventEmitter }).stream.on("error", () => undefined);
}

/** How undici opens a connection with these options. */
export function toConnectorOptions(options: LiveConnectorOptions): buildConnector.BuildOptions {
  return {
    allowH2: options.http2,
    ...(options.http2 ? { preferH2: true } : {}),
    timeout: options.connectTimeoutMs,
    ...(options.ca === undefined ? {} : { ca: options.ca }),
    ...(options.cert === undefined ? {} : { cert: options.cert }),
    ...(options.key === undefined ? {} : { key: options.key }),
    ...(options.servername === undefined ? {} : { servername: options.servername }),
    ...(options.rejectUnauthorized === undefined ? {} : { rejectUnauthorized: options.rejectUnauthorized }),
  };
}

/** Whether the server chose HTTP/2 for this connection. */
export function isHttp2(socket: Socket): boolean {
  return socket instanceof TLSSocket && socket.alpnProtocol === "h2";
}

/**
 * Destroys `socket` after `silenceMs` without data. Checks six times in that span. When a check comes late, this process stood
 * still: it has sent no PING, and read no answer. So the span begins anew.
 */
function watchSilence(socket: Socket, silenceMs: number): void {
  let seenBytes = socket.bytesRead;
  let seenAt = performance.now();
  let checkedAt = seenAt;
  const timer = setInterval(() => {
    const now = performance.now();
    const stoodStill = now - checkedAt > silenceMs / 3;
    checkedAt = now;
    if (socket.bytesRead !== seenBytes || stoodStill) {
      seenBytes = socket.bytesRead;
      seenAt = now;
    } else if (now - seenAt >= silenceMs) {
      socket.destroy(
        new Error(`the connection was silent for ${Math.round(now - seenAt)} ms and counts as dead`),
      );
    }
  }, silenceMs / 6);
  timer.unref();
  socket.once("close", () => clearInterval(timer));
}
