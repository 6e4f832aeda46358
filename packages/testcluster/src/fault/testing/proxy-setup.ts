/** A small HTTPS server and clients for the tests of the proxy. It stands for any server, not for Kubernetes. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { Agent, type Dispatcher } from "undici";
import { createAuthority } from "../../certificates.ts";
import { type HttpProxy, startHttpProxy } from "../http-proxy.ts";

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** A target, a proxy in front of it, and a client that speaks one version of HTTP. */
export interface ProxySetup extends AsyncDisposable {
  readonly proxy: HttpProxy;
  /** What the target got, as `METHOD path`, in order. */
  readonly received: readonly string[];
  readonly sockets: ReadonlySet<Socket>;
  readonly client: Agent;
  send(
    method: Dispatcher.HttpMethod,
    path: string,
    options?: Partial<Dispatcher.RequestOptions>,
  ): Promise<Dispatcher.ResponseData>;
}

export type HttpVersion = "HTTP/1.1" | "HTTP/2";

export async function startProxySetup(version: HttpVersion, handler: Handler): Promise<ProxySetup> {
  await using undo = new AsyncDisposableStack();
  const authority = await createAuthority();
  const certificate = await authority.issueServing(["127.0.0.1"]);
  const received: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer(
    { cert: certificate.certificate, key: certificate.key },
    (request, response) => {
      received.push(`${request.method} ${request.url}`);
      handler(request, response);
    },
  );
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await listen(server);
  undo.defer(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  const target = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const proxy = undo.use(await startHttpProxy({ target, ca: authority.certificate, certificate }));
  const client = undo.adopt(
    new Agent({ allowH2: version === "HTTP/2", connect: { ca: authority.certificate } }),
    (agent) => agent.destroy(),
  );
  const owned = undo.move();
  return {
    proxy,
    received,
    sockets,
    client,
    send: (method, path, options = {}) => client.request({ origin: proxy.url, method, path, ...options }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
}

/** Reads a watch line by line. */
export function readLines(body: AsyncIterable<Buffer>): AsyncIterableIterator<string> {
  return (async function* () {
    let rest = "";
    for await (const chunk of body) {
      const lines = `${rest}${chunk.toString()}`.split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
    if (rest) yield rest;
  })();
}
