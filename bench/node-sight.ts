/** When versions of nodes arrive at a watcher: what anybody else would see of a release, and when. */
import { type KubeClient, type Node, nodes } from "@berth/kube";

export interface NodeSight extends AsyncDisposable {
  /**
   * Resolves with the time (`performance.now`) at which the first version arrived of which `is` holds, from now on.
   * @throws the reason of `signal`; why the watch ended.
   */
  until(name: string, is: (node: Node) => boolean, signal: AbortSignal): Promise<number>;
}

interface Waiting {
  readonly is: (node: Node) => boolean;
  readonly found: (at: number) => void;
  readonly failed: (why: unknown) => void;
}

/** Watches all nodes from their present versions on. Resolves once the server has accepted it. */
export async function watchNodes(client: KubeClient): Promise<NodeSight> {
  const waiting = new Map<string, Set<Waiting>>();
  const stop = new AbortController();
  const { metadata } = await client.list(nodes, { limit: 1 });
  const stream = await client.watch(nodes, {
    signal: stop.signal,
    ...(metadata?.resourceVersion && { resourceVersion: metadata.resourceVersion }),
    project: ({ metadata, spec, status }) => ({
      ...(metadata && { metadata }),
      ...(spec && { spec }),
      ...(status?.conditions && { status: { conditions: status.conditions } }),
    }),
  });
  const tell = (node: Node): void => {
    const at = performance.now();
    for (const one of waiting.get(node.metadata?.name ?? "") ?? []) if (one.is(node)) one.found(at);
  };
  const follow = async (): Promise<void> => {
    let why: unknown = new Error("the watch of nodes has ended");
    try {
      for await (const event of stream)
        if (event.type === "ADDED" || event.type === "MODIFIED") tell(event.object);
    } catch (error) {
      why = error;
    }
    for (const all of waiting.values()) for (const one of all) one.failed(why);
  };
  const following = follow();
  return {
    until(name, is, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      const one: Waiting = { is, found: resolve, failed: reject };
      const aborted = (): void => reject(signal.reason);
      const all = waiting.get(name) ?? new Set();
      waiting.set(name, all.add(one));
      signal.addEventListener("abort", aborted, { once: true });
      if (signal.aborted) aborted();
      return promise.finally(() => {
        all.delete(one);
        if (all.size === 0) waiting.delete(name);
        signal.removeEventListener("abort", aborted);
      });
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await following;
    },
  };
}
