import type { Server } from "node:https";
import type { TlsOptions } from "node:tls";
import { type Clock, systemClock } from "../clock.ts";
import { type HttpListener, startHttpListener, urlOf } from "../http-listener.ts";
import type { LogFields, Logger } from "../log.ts";
import type { MetricsRegistry } from "../metrics.ts";
import { declareAdmissionMetrics, noAdmissionMetrics } from "./admission-metrics.ts";
import { inspectCertificate } from "./certificate-authority.ts";
import { throttleLog } from "./log-throttle.ts";
import { MAX_CONNECTIONS, watchPeers } from "./peers.ts";
import { createBodyReader } from "./request-body.ts";
import { createResponder, PROBE_PATHS } from "./responder.ts";
import type { AdmissionHandler } from "./review-exchange.ts";
import { type ServingCertificate, type ServingContext, serveCertificate } from "./serving-context.ts";
import { createTurns } from "./turns.ts";

/** Where to listen, the certificate, and the handlers. */
export interface AdmissionServerOptions {
  /** See `parseBindAddress`. */
  readonly bindAddress: string;
  /**
   * The certificate to serve, called at each new connection and request, so it must be quick. A new one is served from
   * then on. `undefined` makes handshakes fail.
   */
  readonly certificate: () => ServingCertificate | undefined;
  /** By path, as in the `clientConfig` of the webhook: `/mutate-node`. */
  readonly handlers: Readonly<Record<string, AdmissionHandler>>;
  /** For `/readyz`: whether handlers have the data that they need. */
  readonly ready: () => boolean;
  readonly log: Logger;
  readonly clock?: Clock;
  readonly metrics?: MetricsRegistry;
  /**
   * PEM of the authorities that sign the client certificates of API servers, and of no other client. A client with such
   * a certificate is not bounded by its address. Default: the server requests no client certificate.
   */
  readonly clientAuthority?: string;
  /** Bytes of a request. Default 5 MiB: etcd takes objects of up to 1.5 MiB, and a review holds two. */
  readonly maxBodyBytes?: number;
  /** Time for a client to finish its TLS handshake, its headers and its body, ms each. Default 2000. */
  readonly requestTimeoutMs?: number;
  /** How long requests may take to end once the server is disposed of, ms. Default 1000. */
  readonly drainMs?: number;
}

/** A server that listens. Disposing stops accepting at once, gives requests `drainMs` to end, then cuts them off. */
export interface AdmissionServer extends AsyncDisposable {
  /** `https://127.0.0.1:8443`. */
  readonly url: string;
}

/** TLS 1.2 and up, as Kubernetes asks of webhooks. Renegotiation only helps attackers to exhaust a server. */
const TLS: TlsOptions = { minVersion: "TLSv1.2", secureOptions: 0x4000_0000 /* SSL_OP_NO_RENEGOTIATION */ };
const DEFAULT_MAX_BODY_BYTES = 5 * 1024 * 1024;
/** Longer than the API server's 90 s for idle connections, so that its next call never meets a closing one. */
const KEEP_ALIVE_MS = 120_000;
/** A busy API server uses each of its connections more often. */
const QUIET_MS = 200;
/** For log lines that any client can cause at any rate. */
const LOG_EVERY_MS = 10_000;

/**
 * Starts an HTTPS server for the admission webhooks of a controller, and resolves when it listens. It does not keep the
 * process running.
 *
 * POST of an `AdmissionReview` to the path of a handler is answered 200 with a review. A body that is no review gets
 * 400, a slow one 408, a large one 413, another format 415. 503 means no room in time; 500 means that the handler
 * failed or was late. `GET /healthz` is 200 `ok`, `GET /readyz` 200 `ready` or 503 `not ready`. Other paths are 404,
 * other methods 405.
 * @throws RangeError for an invalid address, for one that is off, and for an invalid path; the system's error when
 *   listening fails.
 */
export async function startAdmissionServer(options: AdmissionServerOptions): Promise<AdmissionServer> {
  const {
    log,
    clock = systemClock,
    requestTimeoutMs = 2000,
    maxBodyBytes = DEFAULT_MAX_BODY_BYTES,
  } = options;
  const throttled = (level: "warn" | "debug" | "error", message: string): ((fields: LogFields) => void) =>
    throttleLog((fields) => log[level](message, fields), { clock, everyMs: LOG_EVERY_MS });
  const metrics =
    options.metrics === undefined
      ? noAdmissionMetrics
      : declareAdmissionMetrics(options.metrics, {
          get inFlight() {
            return responder.inFlight;
          },
          get certificateEndsMs() {
            return inspectCertificate(options.certificate()?.certificate ?? "")?.notAfterMs;
          },
        });
  const { clientAuthority: ca } = options;
  const tls: TlsOptions = { ...TLS, ...(ca !== undefined && { ca, requestCert: true }) };
  const responder = createResponder({
    handlers: toHandlers(options.handlers),
    ready: () => serving?.usable === true && options.ready(),
    readBody: createBodyReader({ maxBytes: maxBodyBytes, timeoutMs: requestTimeoutMs, clock }),
    peerOf: (request) => peerOf?.(request),
    turn: createTurns(clock),
    clock,
    metrics,
    log,
    refused: throttled("warn", "an admission request was refused"),
  });
  const onHandshakeFailed = throttled("debug", "a TLS handshake failed");
  const onUnusable = throttled("error", "the serving certificate cannot be used");
  let serving: ServingContext | undefined;
  let peerOf: ReturnType<typeof watchPeers> | undefined;
  let listener: HttpListener<Server> | undefined;

  listener = await startHttpListener<Server>({
    name: "admission server",
    bindAddress: options.bindAddress,
    create(limits, onRequest) {
      const { createServer } = process.getBuiltinModule("node:https");
      const shared = { ...limits, ...tls, rejectUnauthorized: false, handshakeTimeout: requestTimeoutMs };
      const server = createServer(shared, onRequest);
      peerOf = watchPeers(server);
      server.on("tlsClientError", (error) => {
        metrics.handshakeFailed();
        onHandshakeFailed({ error: error.message });
      });
      serving = serveCertificate(server, tls, options.certificate, (error) => onUnusable({ error }));
      return server;
    },
    onRequest(request, response) {
      serving?.refresh();
      const isLast = (): boolean =>
        listener?.closing === true || serving?.isOutdated(request.socket) === true;
      void responder.answer(request, response, isLast);
    },
    // The body has its own limit, so that a slow one is answered and counted as any other request.
    headersTimeoutMs: requestTimeoutMs,
    requestTimeoutMs: 2 * requestTimeoutMs,
    keepAliveTimeoutMs: KEEP_ALIVE_MS,
    // Twice the bound, for API servers that show their certificates.
    maxConnections: 2 * MAX_CONNECTIONS,
    drainMs: options.drainMs ?? 1000,
    quietMs: QUIET_MS,
    log,
    clock,
  });
  if (listener === undefined) throw new RangeError("an admission server needs an address to listen on");
  const running = listener;
  return { url: urlOf(running.server, "https"), [Symbol.asyncDispose]: () => running[Symbol.asyncDispose]() };
}

/** @throws RangeError for an invalid URL path, and for one that is served already. */
function toHandlers(
  handlers: Readonly<Record<string, AdmissionHandler>>,
): ReadonlyMap<string, AdmissionHandler> {
  for (const path of Object.keys(handlers)) {
    if (URL.parse(path, "https://admission")?.pathname !== path || PROBE_PATHS.has(path)) {
      throw new RangeError(`${JSON.stringify(path)} cannot be the path of an admission handler`);
    }
  }
  return new Map(Object.entries(handlers));
}
