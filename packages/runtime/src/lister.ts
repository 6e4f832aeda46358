import type { KubeObject } from "@berth/kube";
import type { ObjectKey } from "./key.ts";

/**
 * The read side of an informer: the last state the server told us. Objects are shared and must not be changed
 * (their types are readonly). There is no setter: only the informer writes.
 */
export interface Lister<T extends KubeObject> {
  /** The object of this key, as last told; `undefined` when there is none, and for a key of another cluster. */
  get(key: ObjectKey): T | undefined;
  /** All objects, in no particular order. */
  list(): IterableIterator<T>;
  /** The objects whose index function gave this value. @throws RangeError when no such index was declared. */
  byIndex(index: string, value: string): readonly T[];
  readonly size: number;
  /** True once the first complete snapshot has been taken over; stays true while reconnecting. */
  readonly synced: boolean;
}

/** Event filters and mappers see what changed; a reconciler never does (it is level-based). */
export type Change<T extends KubeObject> =
  /** `initial`: part of a snapshot and not a live event, so its work may wait behind live work. */
  | { readonly type: "added"; readonly object: T; readonly initial: boolean }
  | { readonly type: "updated"; readonly object: T; readonly old: T }
  /** `object` is the last state known. Deleted and made again under one name arrives as `deleted`, then `added`. */
  | { readonly type: "deleted"; readonly object: T };
