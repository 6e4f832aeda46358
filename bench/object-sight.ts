/** When versions of objects arrive at a watcher: what anybody else would see of a change, and when. */
import type { KubeClient, KubeObject, Resource } from "@berth/kube";

export interface ObjectSight<T> extends AsyncDisposable {
  /**
   * Resolves with the time (`performance.now`) at which the first version arrived of which `is` holds, from now on.
   * @throws the reason of `signal`; why the watch ended.
   */
  until(name: string, is: (object: T) => boolean, signal: AbortSignal): Promise<number>;
}

export interface ObjectSightOptions<T extends KubeObject> {
  readonly resource: Resource<T>;
  /** Of the objects, whose names are told apart in it alone. Absent for those that have none. */
  readonly namespace?: string;
  /** The server sends only these. Default: all. */
  readonly labelSelector?: string;
  /** What is kept of a version for `is`; its metadata among it. */
  readonly project: (object: T) => T;
}

interface Waiting<T> {
  readonly is: (object: T) => boolean;
  readonly found: (at: number) => void;
  readonly failed: (why: unknown) => void;
}

/** Watches all of them from their present versions on. Resolves once the server has accepted it. */
export async function watchObjects<T extends KubeObject>(
  client: KubeClient,
  { resource, namespace, labelSelector, project }: ObjectSightOptions<T>,
): Promise<ObjectSight<T>> {
  const waiting = new Map<string, Set<Waiting<T>>>();
  const stop = new AbortController();
  const scope = { ...(namespace && { namespace }), ...(labelSelector && { labelSelector }) };
  const { metadata } = await client.list(resource, { ...scope, limit: 1 });
  let resourceVersion = metadata?.resourceVersion ?? "";
  const open = () =>
    client.watch(resource, {
      ...scope,
      signal: stop.signal,
      ...(resourceVersion && { resourceVersion }),
      project,
    });
  const first = await open();
  const tell = (object: T): void => {
    const at = performance.now();
    for (const one of waiting.get(object.metadata?.name ?? "") ?? []) if (one.is(object)) one.found(at);
  };
  const follow = async (): Promise<void> => {
    try {
      // The server ends each watch after some minutes.
      for (let stream = first; !stop.signal.aborted; stream = await open())
        for await (const event of stream) {
          resourceVersion =
            event.type === "BOOKMARK"
              ? event.resourceVersion
              : (event.object.metadata?.resourceVersion ?? "");
          if (event.type === "ADDED" || event.type === "MODIFIED") tell(event.object);
        }
    } catch (why) {
      for (const all of waiting.values()) for (const one of all) one.failed(why);
    }
  };
  const following = follow();
  return {
    until(name, is, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      const one: Waiting<T> = { is, found: resolve, failed: reject };
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
