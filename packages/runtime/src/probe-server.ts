import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { shareConnections } from "./admission/room.ts";
import { type Clock, systemClock } from "./clock.ts";
import { type HealthCheck, type HealthReport, runChecks, runOneCheck } from "./health-checks.ts";
import { type HttpListener, type Reply, startHttpListener, urlOf, writeReplyHead } from "./http-listener.ts";
import type { Logger } from "./log.ts";
import type { MetricsRegistry } from "./metrics.ts";

/** Where to listen, and the sources of the answers. */
export interface ProbeServerOptions {
  /** Where `/metrics` is served; see `parseBindAddress`. */
  readonly metricsBindAddress: string;
  /** Where `/healthz`, `/livez` and `/readyz` are served. May be the same address. */
  readonly healthBindAddress: string;
  readonly metrics: MetricsRegistry;
  /** Checks of `/healthz` and `/livez`. Read at every request: may grow. */
  readonly liveChecks: readonly HealthCheck[];
  /** Checks of `/readyz`. Read at every request: may grow. */
  readonly readyChecks: readonly HealthCheck[];
  readonly log: Logger;
  /** Time for a client to send its request, ms. Default 5000. */
  readonly requestTimeoutMs?: number;
  readonly clock?: Clock;
}

/** Running servers. Disposing stops accepting at once, gives requests 400 ms to end, then cuts them off. */
export interface ProbeServers extends AsyncDisposable {
  /** `http://127.0.0.1:8080`; `undefined` when off. */
  readonly metricsUrl: string | undefined;
  readonly healthUrl: string | undefined;
}

type Route = (url: URL) => Reply | Promise<Reply>;

/** Kubernetes sends SIGKILL after the grace period, so a scrape must not delay more important work. */
const DRAIN_MS = 400;
const MAX_CONNECTIONS = 128;

/**
 * Starts the servers and resolves when they listen.
 *
 * `/readyz` answers 200 `ok`, or 500 with one line per check; `?verbose` gives the lines always, `?exclude=name`
 * leaves checks out, `/readyz/<name>` runs one. Only GET and HEAD are served.
 * @throws RangeError for an address that cannot be read, and the system's error when it cannot be listened on.
 */
export async function startProbeServers(options: ProbeServerOptions): Promise<ProbeServers> {
  const { metricsBindAddress, healthBindAddress } = options;
  const [metricsRoute, healthRoute] = [createMetricsRoute(options.metrics), createHealthRoute(options)];
  await using started = new AsyncDisposableStack();
  const start = async (bindAddress: string, route: Route): Promise<string | undefined> => {
    const server = await listen(bindAddress, route, options);
    return server === undefined ? undefined : urlOf(started.use(server).server, "http");
  };
  const shared = metricsBindAddress === healthBindAddress && !metricsBindAddress.endsWith(":0");
  const both: Route = (url) => (url.pathname === "/metrics" ? metricsRoute(url) : healthRoute(url));
  const metricsUrl = await start(metricsBindAddress, shared ? both : metricsRoute);
  const healthUrl = shared ? metricsUrl : await start(healthBindAddress, healthRoute);
  const running = started.move();
  return { metricsUrl, healthUrl, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

/** Scrapes that arrive while one is rendered share its result, because rendering is the costly part. */
function createMetricsRoute(metrics: MetricsRegistry): Route {
  let rendering: Promise<Reply> | undefined;
  const render = async (): Promise<Reply> => {
    try {
      return { status: 200, ...(await metrics.expose()) };
    } finally {
      rendering = undefined;
    }
  };
  return (url) => (url.pathname === "/metrics" ? (rendering ??= render()) : NOT_FOUND);
}

const NOT_FOUND: Reply = { status: 404, body: "not found\n" };

function createHealthRoute({ liveChecks, readyChecks }: ProbeServerOptions): Route {
  const checksOf: Readonly<Record<string, readonly HealthCheck[]>> = {
    healthz: liveChecks,
    livez: liveChecks,
    readyz: readyChecks,
  };
  return (url) => {
    const [, title = "", name, ...rest] = url.pathname.split("/");
    const checks = Object.hasOwn(checksOf, title) ? checksOf[title] : undefined;
    if (checks === undefined || rest.length > 0) return NOT_FOUND;
    if (name !== undefined && name !== "") {
      const report = runOneCheck(name, checks);
      return report === undefined ? NOT_FOUND : replyWith(report);
    }
    const report = runChecks(title, checks, new Set(url.searchParams.getAll("exclude")));
    return report.ok && !url.searchParams.has("verbose") ? { status: 200, body: "ok" } : replyWith(report);
  };
}

/** 500, as kube-apiserver and controller-runtime answer. The kubelet treats 400 and above as a failure. */
function replyWith({ ok, text }: HealthReport): Reply {
  return { status: ok ? 200 : 500, body: text };
}

async function listen(
  bindAddress: string,
  route: Route,
  { log, requestTimeoutMs = 5000, clock = systemClock }: ProbeServerOptions,
): Promise<HttpListener<Server> | undefined> {
  // `import "node:http"` reads every getter of the module, and so loads Node's own undici: 13 MB and some 40 ms.
  const { createServer } = process.getBuiltinModule("node:http");
  const listener = await startHttpListener({
    name: "probe server",
    bindAddress,
    create: createServer,
    onRequest: (request, response) => void answer(request, response, route, log),
    requestTimeoutMs,
    // Longer than the usual scrape interval of 15-30 s, so that a scraper keeps its connection.
    keepAliveTimeoutMs: 65_000,
    maxConnections: MAX_CONNECTIONS,
    drainMs: DRAIN_MS,
    log,
    clock,
  });
  // Any pod may connect, and the kubelet restarts a container whose probes get no connection.
  if (listener !== undefined) shareConnections(listener.server, MAX_CONNECTIONS);
  return listener;
}

/** Never rejects: a failure becomes an answer. */
async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  route: Route,
  log: Logger,
): Promise<void> {
  const reply = await replyTo(request, route, log);
  // The server does not read the rest of a refused request.
  writeReplyHead(response, reply, reply.status === 400 || reply.status === 405);
  response.end(reply.body);
}

async function replyTo(request: IncomingMessage, route: Route, log: Logger): Promise<Reply> {
  if (request.method !== "GET" && request.method !== "HEAD")
    return { status: 405, body: "only GET and HEAD\n", allow: "GET, HEAD" };
  const url = URL.parse(request.url ?? "/", "http://probe");
  if (url === null) return { status: 400, body: "no such path\n" };
  try {
    return await route(url);
  } catch (error) {
    log.error("a probe could not be answered", { path: url.pathname, error });
    return { status: 500, body: "internal error\n" };
  }
}
