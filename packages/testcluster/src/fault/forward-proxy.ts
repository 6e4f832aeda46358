/** A proxy that clients are told of by `HTTPS_PROXY`: it connects to the host that each client names. */
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { KeyPair } from "../certificates.ts";
import { listenOnLoopback, portOf } from "../ports.ts";

/** Who may use it, and what it reaches. */
export interface ForwardProxyOptions {
  /** The others get 407. Default: every client may use it. */
  readonly user?: { readonly name: string; readonly password: string };
  /** In place of DNS: `{ "registry.example:443": "127.0.0.1:20001" }`. Other hosts are reached where they are. */
  readonly hosts?: Readonly<Record<string, string>>;
  /** Answers all requests with this status. Default: it serves them. */
  readonly status?: number;
  /** Speaks https itself. Default http. */
  readonly certificate?: KeyPair;
}

/** Disposing it cuts every connection and frees the port. */
export interface ForwardProxy extends AsyncDisposable {
  /** `http://127.0.0.1:20001`, with the user and password of the options. */
  readonly url: string;
  readonly port: number;
  /** `CONNECT registry.example:443` or `GET http://registry.example/v2/`, in the order in which they came. */
  readonly requests: readonly string[];
}

/** On a port of 127.0.0.1 that the system chooses. */
export async function startForwardProxy(options: ForwardProxyOptions = {}): Promise<ForwardProxy> {
  const { user, hosts = {}, status, certificate: pair } = options;
  const requests: string[] = [];
  const sockets = new Set<Duplex>();
  const server: Server =
    pair === undefined ? createServer() : createTlsServer({ cert: pair.certificate, key: pair.key });
  const wanted = user && `Basic ${Buffer.from(`${user.name}:${user.password}`).toString("base64")}`;
  const refusalOf = ({ headers }: IncomingMessage): number | undefined =>
    wanted !== undefined && headers["proxy-authorization"] !== wanted ? 407 : status;
  const keep = <S extends Duplex>(socket: S): S => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).once("close", () => sockets.delete(socket));
    return socket;
  };
  const placeOf = (host: string): { readonly host: string; readonly port: number } => {
    const url = new URL(`http://${hosts[host] ?? host}`);
    return { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || 80) };
  };

  server.on("connection", (socket: Socket) => keep(socket));
  server.on("connect", (asked: IncomingMessage, client: Duplex, head: Buffer) => {
    requests.push(`CONNECT ${asked.url}`);
    const refused = refusalOf(asked);
    if (refused !== undefined) return client.end(`HTTP/1.1 ${refused} Refused\r\ncontent-length: 0\r\n\r\n`);
    const upstream = keep(connect(placeOf(asked.url ?? "")));
    upstream.once("connect", () => {
      client.write("HTTP/1.1 200 Connected\r\n\r\n");
      upstream.write(head);
      pipeline(client, upstream, client).catch(() => undefined);
    });
    upstream.once("error", () => client.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"));
    return undefined;
  });
  server.on("request", (asked: IncomingMessage, answer: ServerResponse) => {
    requests.push(`${asked.method} ${asked.url}`);
    const refused = refusalOf(asked);
    if (refused !== undefined) return answer.writeHead(refused).end();
    const url = new URL(asked.url ?? "/", "http://127.0.0.1");
    const { "proxy-authorization": _, "proxy-connection": __, ...headers } = asked.headers;
    const path = url.pathname + url.search;
    const upstream = request({ ...placeOf(url.host), method: asked.method, path, headers, agent: false });
    upstream.once("response", (received) => {
      answer.writeHead(received.statusCode ?? 502, received.headers);
      pipeline(received, answer).catch(() => undefined);
    });
    upstream.once("error", () => answer.writeHead(502).end());
    pipeline(asked, upstream).catch(() => undefined);
    return undefined;
  });
  await listenOnLoopback(server);
  const port = portOf(server);
  const login = user ? `${encodeURIComponent(user.name)}:${encodeURIComponent(user.password)}@` : "";
  return {
    url: `${pair === undefined ? "http" : "https"}://${login}127.0.0.1:${port}`,
    port,
    requests,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
