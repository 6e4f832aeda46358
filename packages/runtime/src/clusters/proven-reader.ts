/** Lists and watches that count only when the cluster has shown that it is the right one, and that wait for it. */
import {
  ApiError,
  type ApiFailure,
  isApiError,
  type KubeObject,
  type ListOptions,
  nameOfResource,
  type RequestInfo,
  type Resource,
  type WatchOptions,
  type WatchStream,
} from "@berth/kube";
import type { GuardedClient } from "../guarded-client.ts";
import type { ReadingClient } from "../reflector.ts";
import { isLower } from "./reachability.ts";
import type { SnapshotSlots } from "./snapshot-slots.ts";

/** The cluster that is read. */
export interface ReadCluster {
  readonly name: string;
  /** See `Reachability.epoch`. */
  readonly epoch: number;
  readonly client: Pick<GuardedClient, "list" | "watch" | "whenServed">;
  /** Aborts when `client` is replaced. */
  readonly clientEnd: AbortSignal;
  /** Resolves `true` once it is reached, `false` when the signal aborts. */
  whenReached(signal: AbortSignal | undefined): Promise<boolean>;
  /** Reads the identity on the connections of `client`. @throws ApiError when it is another one, or is not read. */
  prove(signal: AbortSignal | undefined): Promise<void>;
  /** In this epoch the store had a later version than it has now: the cluster was restored from a backup. */
  behind(version: string): void;
}

/**
 * A client for one watch.
 *
 * - Requests wait while the cluster is not reached, and are sent at once when it is: no backoff has to pass.
 * - Every list and watch counts only after its cluster was asked for its identity: after the last page, at the end mark of
 *   a streamed snapshot, or when a watch is opened again. So an informer never shows the objects of another cluster.
 * - A version of an earlier epoch is `expired`, and so is one that the store has not reached. A watch from there would
 *   wait in silence, and miss what happens until then. So a list of one object comes before a watch.
 * - A snapshot that is older than what came before it does not count either: the cluster was restored meanwhile.
 */
export function provenReader(cluster: ReadCluster, slots: Pick<SnapshotSlots, "take">): ReadingClient {
  /** The epoch of the snapshot that versions come from. */
  let epoch = -1;
  /** The latest version that the store had. A refusal has the informer forget it, and take a snapshot. */
  let latest: { readonly epoch: number; readonly version: string } | undefined;
  const failed = (kind: "expired" | "unreachable", about: RequestInfo, message: string): ApiError =>
    new ApiError({ kind } satisfies ApiFailure, { ...about, cluster: cluster.name }, { message });
  /** A request that ended because the cluster was lost or restored: its caller did not stop it. */
  const explain = (error: unknown, about: RequestInfo, signal: AbortSignal | undefined): unknown => {
    if (!isApiError(error, "aborted") || signal?.aborted) return error;
    return epoch === cluster.epoch
      ? failed("unreachable", about, "the cluster was not reached any more")
      : failed("expired", about, "the cluster was restored, or is another one");
  };
  /** Not seeing the identity must not be taken for not seeing the objects. */
  const prove = async (about: RequestInfo, signal: AbortSignal | undefined): Promise<void> => {
    await cluster.prove(signal).catch((error: unknown) => {
      if (!isApiError(error) || error.failure.kind === "aborted") throw error;
      throw failed("unreachable", about, `its identity was not read: ${error.message}`);
    });
    mustBeOf(about);
  };
  const mustBeOf = (about: RequestInfo): void => {
    if (epoch !== cluster.epoch)
      throw failed("expired", about, "the cluster was restored, or is another one since");
  };
  /** @param version of the store, as it is now. */
  const mustBeLatest = (version: string, about: RequestInfo): void => {
    if (latest?.epoch === epoch && isLower(version, latest.version)) {
      cluster.behind(version);
      throw failed("expired", about, "the cluster was restored from a backup");
    }
    latest = { epoch, version };
  };
  const note = (version: string | undefined): void => {
    if (version !== undefined && latest !== undefined && isLower(latest.version, version))
      latest = { epoch, version };
  };
  return {
    async whenServed(resource, signal) {
      await cluster.whenReached(signal);
      await cluster.client.whenServed(resource, AbortSignal.any([signal, cluster.clientEnd]));
    },
    async list<T extends KubeObject>(resource: Resource<T>, options: ListOptions<T> = {}) {
      const { signal } = options;
      const about: RequestInfo = { verb: "list", resource: nameOfResource(resource) };
      await cluster.whenReached(signal);
      using _slot = await slots.take(signal);
      if (options.continue === undefined) epoch = cluster.epoch;
      try {
        const page = await cluster.client.list(resource, options);
        if (page.metadata.continue) mustBeOf(about);
        else {
          await prove(about, signal);
          mustBeLatest(page.metadata.resourceVersion ?? "", about);
        }
        return page;
      } catch (error) {
        throw explain(error, about, signal);
      }
    },
    async watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions<T> = {}) {
      const { signal } = options;
      const about: RequestInfo = { verb: "watch", resource: nameOfResource(resource) };
      await cluster.whenReached(signal);
      await using undo = new AsyncDisposableStack();
      const slot = options.sendInitialEvents ? undo.use(await slots.take(signal)) : undefined;
      if (options.sendInitialEvents) epoch = cluster.epoch;
      mustBeOf(about);
      const { resourceVersion, namespace = "" } = options;
      const onError = (error: unknown): unknown => explain(error, about, signal);
      try {
        if (resourceVersion !== undefined) {
          const one = { namespace, limit: 1, metadataOnly: true, ...(signal && { signal }) };
          const { metadata } = await cluster.client.list(resource, one);
          mustBeOf(about);
          mustBeLatest(metadata.resourceVersion ?? "", about);
        }
        const stream = undo.use(await cluster.client.watch(resource, options));
        if (resourceVersion !== undefined) await prove(about, signal);
        undo.move();
        const onSnapshot = async (version: string): Promise<void> => {
          await prove(about, signal);
          mustBeLatest(version, about);
          slot?.[Symbol.dispose]();
        };
        return following(stream, { isLive: resourceVersion !== undefined, slot, onSnapshot, note, onError });
      } catch (error) {
        throw onError(error);
      }
    },
  };
}

interface Following {
  /** No snapshot comes first. */
  readonly isLive: boolean;
  /** Of the snapshot. */
  readonly slot: Disposable | undefined;
  /** Called before the end mark of a snapshot. */
  readonly onSnapshot: (version: string) => Promise<void>;
  /** Called with the version of each change. */
  readonly note: (version: string | undefined) => void;
  readonly onError: (error: unknown) => unknown;
}

/** The same stream. */
function following<T extends KubeObject>(
  stream: WatchStream<T>,
  { isLive, slot, onSnapshot, note, onError }: Following,
): WatchStream<T> {
  return {
    get lastByteAt() {
      return stream.lastByteAt;
    },
    async *[Symbol.asyncIterator]() {
      let hasBegun = isLive;
      try {
        for await (const event of stream) {
          const isEnd = event.type === "BOOKMARK" && event.initialEventsEnd;
          if (isEnd) await onSnapshot(event.resourceVersion);
          hasBegun ||= isEnd;
          if (hasBegun)
            note(event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata?.resourceVersion);
          yield event;
        }
      } catch (error) {
        throw onError(error);
      }
    },
    [Symbol.asyncDispose]: () => {
      slot?.[Symbol.dispose]();
      return stream[Symbol.asyncDispose]();
    },
  };
}
