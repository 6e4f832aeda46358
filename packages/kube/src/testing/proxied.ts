/** Clients of a test cluster behind something that can fail. */
import {
  type HttpProxy,
  type HttpProxyOptions,
  startHttpProxy,
  startTcpProxy,
  type TcpProxy,
  type TestCluster,
} from "@berth/testcluster";
import type { KubeClient } from "../client.ts";
import type { ConnectOptions } from "../rest-client.ts";

export interface Proxied extends AsyncDisposable {
  readonly proxy: HttpProxy;
  readonly client: KubeClient;
}

export interface Linked extends AsyncDisposable {
  readonly link: TcpProxy;
  readonly client: KubeClient;
}

/** A client behind a proxy that knows requests. `under`: see `HttpProxyOptions`. */
export async function startProxied(
  cluster: TestCluster,
  { under, ...options }: Partial<ConnectOptions> & Pick<HttpProxyOptions, "under"> = {},
): Promise<Proxied> {
  await using undo = new AsyncDisposableStack();
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  const behind = { target: cluster.url, ca: cluster.ca, certificate, ...(under !== undefined && { under }) };
  const proxy = undo.use(await startHttpProxy(behind));
  const client = undo.use(cluster.connect({ server: proxy.url, ...options }));
  const owned = undo.move();
  return { proxy, client, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** A client behind a link that can fail. */
export async function startLinked(
  cluster: TestCluster,
  options: Partial<ConnectOptions> = {},
): Promise<Linked> {
  await using undo = new AsyncDisposableStack();
  const link = undo.use(await startTcpProxy({ target: new URL(cluster.url) }));
  const client = undo.use(cluster.connect({ server: link.url, ...options }));
  const owned = undo.move();
  return { link, client, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
