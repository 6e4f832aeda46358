import type { KubeObject } from "@berth/kube";
import type { ObjectKey } from "./key.ts";
import type { Change } from "./lister.ts";
import type { Predicate } from "./predicate.ts";
import type { AddOptions } from "./work-queue.ts";

/** Requests a reconcile of a key. */
export type Enqueue<K> = (key: K, options?: AddOptions) => void;

/** Where keys come from. It is disposed of when the controller stops. */
export interface Source<K> {
  /** Starts to request keys, at once for objects that exist already. */
  start(enqueue: Enqueue<K>): Disposable;
}

/**
 * The part of an informer that a source needs. A late subscriber receives the existing objects as `added` with
 * `initial`. The informer reports an `onChange` that throws, and continues.
 */
export interface Subscribable<T extends KubeObject> {
  /** Calls `handler` for every change from now on, until disposed of. */
  subscribe(handler: { onChange(change: Change<T>): void }): Disposable;
}

/** The informer to follow, the changes that count, and the keys that they request. */
export interface WatchForOptions<T extends KubeObject, K = ObjectKey> {
  readonly informer: Subscribable<T>;
  /** Which changes count; default: all. */
  readonly predicate?: Predicate<T>;
  /** The keys to reconcile after such a change; see `mapper.ts`. */
  readonly map: (change: Change<T>) => Iterable<K>;
  /**
   * Whether a change skips the `coalesceMs` of the queue. Default: an object of a snapshot does, an update does if its
   * key was quiet, and an addition or deletion does not.
   */
  readonly immediate?: (change: Change<T>) => NonNullable<AddOptions["immediate"]>;
}

/**
 * A source that requests keys when objects change. The objects of a snapshot come at `low` priority, so live events
 * after a start or a reconnect do not wait behind the whole cluster.
 */
export function watchFor<T extends KubeObject, K = ObjectKey>(options: WatchForOptions<T, K>): Source<K> {
  const { informer, predicate, map, immediate } = options;
  return {
    start: (enqueue) =>
      informer.subscribe({
        onChange: (change) => {
          if (predicate !== undefined && !predicate(change)) return;
          const urgency = urgencyOf(change, immediate);
          for (const key of map(change)) enqueue(key, urgency);
        },
      }),
  };
}

/** How soon the keys of a change are due. @param immediate see `WatchForOptions`. */
export function urgencyOf<T extends KubeObject>(
  change: Change<T>,
  immediate: NonNullable<WatchForOptions<T>["immediate"]> = immediateByDefault,
): Required<AddOptions> {
  return { priority: isInitial(change) ? "low" : "high", immediate: immediate(change) };
}

/** It is part of a snapshot, and no news. */
export function isInitial(change: Change<KubeObject>): boolean {
  return change.type === "added" && change.initial;
}

/** A snapshot delivers each object once, so there is no burst to wait for. A new object soon changes again. */
function immediateByDefault(change: Change<KubeObject>): boolean | "ifQuiet" {
  return isInitial(change) || (change.type === "updated" && "ifQuiet");
}
