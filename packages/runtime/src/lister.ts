import type { KubeObject } from "@berth/kube";
import type { ObjectKey } from "./key.ts";

/**
 * The read side of an informer: the last state that the server sent. Objects are shared and must not be changed (their
 * types are readonly). There is no setter: only the informer writes.
 */
export interface Lister<T extends KubeObject> {
  /** The object of this key in the last state; `undefined` when absent, and for a key of another cluster. */
  get(key: ObjectKey): T | undefined;
  /** All objects, in no particular order. */
  list(): IterableIterator<T>;
  /** The objects whose index function gave this value. @throws RangeError when no such index was declared. */
  byIndex(index: string, value: string): readonly T[];
  readonly size: number;
  /** True once the first complete snapshot has been taken over; stays true while reconnecting. */
  readonly synced: boolean;
}

/** A change of one object. Event filters and mappers receive it; a level-based reconciler never does. */
export type Change<T extends KubeObject> =
  /** `initial`: part of a snapshot and not a live event, so its work may wait behind live work. */
  | { readonly type: "added"; readonly object: T; readonly initial: boolean }
  | { readonly type: "updated"; readonly object: T; readonly old: T }
  /** `object` is the last known state. A recreated object of the same name arrives as `deleted`, then `added`. */
  | { readonly type: "deleted"; readonly object: T };
