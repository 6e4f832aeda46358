import { type buildConnector, Client, type Dispatcher, Pool, ProxyAgent } from "undici";
import type { CredentialMaterial } from "./credential.ts";
import {
  createLiveConnector,
  isHttp2,
  type LiveConnectorOptions,
  toConnectorOptions,
} from "./live-connector.ts";

/** The connections of one cluster, one client certificate and one certificate authority. */
export interface ConnectionPools {
  readonly certificate: CredentialMaterial["certificate"];
  readonly ca: string | undefined;
  /** HTTP/2: watches and reads share a connection. Or HTTP/1.1, and one read at a time. */
  readonly reads: Dispatcher;
  /** HTTP/1.1: one write to a connection at a time. */
  readonly writes: Dispatcher;
  /** `close`: after the requests in flight. `destroy`: they fail. */
  end(how: "close" | "destroy"): Promise<void>;
}

export interface ConnectionPoolsOptions {
  readonly origin: string;
  readonly ca: string | undefined;
  readonly serverName: string | undefined;
  readonly insecure: boolean;
  readonly certificate: CredentialMaterial["certificate"];
  /** URL of an HTTP proxy that carries all connections. */
  readonly proxy?: string | undefined;
  readonly silenceMs: number;
  readonly maxWriteConnections: number;
  readonly readsOneByOne?: boolean | undefined;
  /** For reads. */
  readonly http2: boolean;
  readonly onOpen: () => void;
  readonly onClose: () => void;
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Between two connections for reads that fail. */
const CONNECT_AGAIN_MS = 250;
/** Streams of one HTTP/2 connection, as kube-apiserver advertises (`server/secure_serving.go`). Fewer are obeyed. */
const STREAMS_PER_CONNECTION = 100;
/** An upper bound. Only thousands of watches, or dozens through a proxy without HTTP/2, reach it. */
const MAX_READ_CONNECTIONS = 64;
/** A read connection without streams closes after this long. client-go: 90 s. */
const READ_IDLE_MS = 60_000;
/** A write that comes alone seldom has to make a connection, which is three ways to the server and back. */
const WRITE_IDLE_MS = 15_000;

type Connector = buildConnector.connector;

/** Opens no connection yet. */
export function createConnectionPools(options: ConnectionPoolsOptions): ConnectionPools {
  const { origin, certificate, silenceMs } = options;
  const connections = (http2: boolean): LiveConnectorOptions => ({
    ca: options.ca,
    cert: certificate?.cert,
    key: certificate?.key,
    servername: options.serverName,
    rejectUnauthorized: options.insecure ? false : undefined,
    http2,
    silenceMs,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    onOpen: options.onOpen,
    onClose: options.onClose,
  });
  // A Pool and not a Client: the 101st watch gets a second connection instead of waiting for one to end. It fills
  // the first connection first (measured: 20 watches and 50 reads share one, 150 watches need two, 250 three).
  const createReads = (): Dispatcher =>
    dispatcherOf(connections(options.http2), options.proxy, origin, (connector) => ({
      allowH2: options.http2,
      connections: MAX_READ_CONNECTIONS,
      h2Options: {
        maxConcurrentStreams: STREAMS_PER_CONNECTION,
        pingInterval: Math.max(1, Math.floor(silenceMs / 3)),
      },
      keepAliveTimeout: READ_IDLE_MS,
      factory: (url, inherited) => createReader(url, inherited, connector),
    }));
  const createWrites = (): Dispatcher =>
    dispatcherOf(connections(false), options.proxy, origin, (connect) => ({
      allowH2: false,
      connect,
      connections: options.maxWriteConnections,
      keepAliveTimeout: WRITE_IDLE_MS,
    })).compose(forgetHeaderBytes);
  const createSingleReads = (): Dispatcher =>
    dispatcherOf(connections(false), options.proxy, origin, (connect) => ({
      allowH2: false,
      connect,
      connections: 1,
      keepAliveTimeout: READ_IDLE_MS,
    }));
  let reads: Dispatcher | undefined;
  let writes: Dispatcher | undefined;
  return {
    certificate,
    ca: options.ca,
    // Each is made for its first request: a pool has 20 KB, and hundreds of clusters are only read.
    get reads() {
      return (reads ??= options.readsOneByOne ? createSingleReads() : createReads());
    },
    get writes() {
      return (writes ??= createWrites());
    },
    async end(how) {
      await Promise.allSettled([reads, writes].flatMap((it) => it?.[how]() ?? []));
    },
  };
}

/** A pool of connections to the origin, or of tunnels to it through the proxy. */
function dispatcherOf(
  connections: LiveConnectorOptions,
  proxy: string | undefined,
  origin: string,
  toOptions: (connect: Connector) => Pool.Options,
): Dispatcher {
  if (proxy === undefined) {
    const options = toOptions(createLiveConnector(connections));
    // The queue of a Pool alone has 16 KB.
    return options.connections === 1 ? new Client(origin, options) : new Pool(origin, options);
  }
  return new ProxyAgent({
    uri: proxy,
    requestTls: toConnectorOptions(connections),
    proxyTls: { allowH2: false },
    connectTimeout: CONNECT_TIMEOUT_MS,
    // A proxy that does not answer CONNECT counts as one that cannot be reached.
    clientFactory: (url, inherited) =>
      new Pool(url, { ...inherited, headersTimeout: CONNECT_TIMEOUT_MS, keepAliveTimeout: WRITE_IDLE_MS }),
    factory: (_, { connect }: Pool.Options) =>
      new Pool(origin, toOptions(createLiveConnector({ ...connections, through: connect as Connector }))),
  });
}

/**
 * A request of undici keeps the bytes of the headers of its answer, and with them the first 16 KB of the answer. It is
 * old once it was answered, so V8 collects it late: answers of 32 KB made a process grow by 30 MB.
 */
const forgetHeaderBytes: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  const begin = handler.onResponseStart?.bind(handler);
  handler.onResponseStart = (controller, ...answer) => {
    begin?.(controller, ...answer);
    controller.rawHeaders = null;
  };
  return dispatch(options, handler);
};

/**
 * One connection at a time, over HTTP/2 unless the server lacks it.
 *
 * `pipelining` is how many requests undici may have in flight without an HTTP/2 connection. Both of its bounds matter
 * (undici 8.12). After GOAWAY the watches of the old connection still count while no new one exists. With a value of 1,
 * one such watch would prevent a new connection for ever. Over HTTP/1.1, more than 1 would queue reads behind a watch
 * on the same connection, for as long as the watch lasts.
 */
function createReader(url: string | URL, inherited: object, connect: Connector): Client {
  let failedAt = Number.NEGATIVE_INFINITY;
  const client: Client = new Client(url, {
    ...inherited,
    pipelining: STREAMS_PER_CONNECTION,
    connect: (target, callback) => {
      connect(target, (...[error, socket]) => {
        if (error !== null) {
          // While an old connection has a watch, no failure reaches the requests that wait, and undici connects again.
          const waitMs = Math.max(0, failedAt + CONNECT_AGAIN_MS - performance.now());
          failedAt = performance.now() + waitMs;
          if (waitMs === 0) callback(error, null);
          else setTimeout(callback, waitMs, error, null).unref();
          return;
        }
        client.pipelining = isHttp2(socket) ? STREAMS_PER_CONNECTION : 1;
        callback(null, socket);
      });
    },
  });
  return client;
}
