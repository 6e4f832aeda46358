/**
 * The control planes of many projects on one host, as Milo serves them. Each shows the claims of one namespace of the cluster
 * behind it: the one with the name of the project. So an API server stands for all, and no project sees the claims of others.
 */
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { Agent, request as ask } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TestCluster } from "@berth/testcluster";

const PROJECT = /^\/apis\/resourcemanager\.miloapis\.com\/v1alpha1\/projects\/([^/]+)\/control-plane(\/.*)$/;
const ALL_CLAIMS = "/apis/quota.miloapis.com/v1alpha1/resourceclaims";

export interface PlaneRequest {
  readonly project: string;
  readonly method: string;
  /** Path and query below the plane. */
  readonly path: string;
}

export interface Planes extends AsyncDisposable {
  readonly url: string;
  /** What came, oldest first. */
  readonly requests: readonly PlaneRequest[];
  /** As a stopped process: what is asked from now on has no answer, and watches fall silent. */
  freeze(project: string): void;
  /** What was asked meanwhile is answered. */
  thaw(): void;
}

/** What API discovery reads. */
export const isDiscovery = ({ path }: PlaneRequest): boolean => /^\/apis?(\/[^/?]+){0,2}(\?|$)/.test(path);
/** A watch stays open, and is opened again now and then. */
export const isWatch = ({ path }: PlaneRequest): boolean => /[?&]watch=(true|1)(&|$)/.test(path);

export async function startPlanes({ url, ca, authority }: TestCluster): Promise<Planes> {
  const target = new URL(url);
  const agent = new Agent({ keepAlive: true, ca });
  const { certificate: cert, key } = await authority.issueServing(["127.0.0.1"]);
  const requests: PlaneRequest[] = [];
  const sockets = new Set<Socket>();
  const thawed = new Map<string, PromiseWithResolvers<void>>();

  const carry = async (from: Http2ServerRequest, to: Http2ServerResponse): Promise<void> => {
    const [, project = "", path = ""] = PROJECT.exec(from.url) ?? [];
    requests.push({ project, method: from.method, path });
    await thawed.get(project)?.promise;
    if (to.destroyed) return;
    const own = `/namespaces/${project}/resourceclaims`;
    const asked = ask({
      host: target.hostname,
      port: target.port,
      method: from.method,
      path: path.startsWith(ALL_CLAIMS) ? path.replace("/resourceclaims", own) : path,
      headers: headersOf(from.headers),
      agent,
    });
    from.pipe(asked);
    to.once("close", () => asked.destroy());
    asked.on("error", () => to.destroy());
    asked.once("response", (answer) => void relay(answer, to, project).catch(() => to.destroy()));
  };
  const relay = async (answer: IncomingMessage, to: Http2ServerResponse, project: string): Promise<void> => {
    to.writeHead(answer.statusCode ?? 502, headersOf(answer.headers));
    for await (const chunk of answer) {
      await thawed.get(project)?.promise;
      if (!to.destroyed) to.write(chunk);
    }
    to.end();
  };
  const server = createSecureServer({ cert, key, allowHTTP1: true }, (from, to) => {
    carry(from, to).catch(() => to.destroy());
  });
  server.on("sessionError", () => undefined);
  server.on("connection", (socket: Socket) => {
    sockets.add(socket.on("error", () => undefined));
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const thaw = (): void => {
    for (const one of thawed.values()) one.resolve();
    thawed.clear();
  };
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    freeze: (project) => void thawed.set(project, Promise.withResolvers()),
    thaw,
    async [Symbol.asyncDispose]() {
      thaw();
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
      agent.destroy();
    },
  };
}

/** Without those of one connection, of HTTP/2, and of the client. */
function headersOf(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  const left = new Set(["connection", "keep-alive", "transfer-encoding", "host", "user-agent"]);
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !name.startsWith(":") && !left.has(name)),
  );
}
