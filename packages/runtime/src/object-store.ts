import type { KubeObject } from "@berth/kube";
import type { Change } from "./lister.ts";

/**
 * From an object to the values it is found under; none: not in the index. Pure: it is called when a version of an
 * object comes and again when it goes. One that throws gives no values.
 */
export type IndexFunction<T extends KubeObject> = (object: T) => readonly string[];

/** `namespace/name`: unique among the objects of one resource in one cluster at one time. */
export function storeKey(object: KubeObject): string {
  return `${object.metadata?.namespace ?? ""}/${object.metadata?.name ?? ""}`;
}

/** By value, the keys of the objects that are found under it. */
type Index = Map<string, Set<string>>;
type Indexes = ReadonlyMap<string, Index>;

/** A state of the store in the making: indexed object by object, so that taking it over takes no time. */
export interface Snapshot<T extends KubeObject> {
  readonly objects: Map<string, T>;
  readonly indexes: Indexes;
  /** The object already held is kept in its place when it is the same version: no second copy of what did not change. */
  put(object: T): void;
  remove(object: T): void;
}

/** Told when an index function throws. */
export type IndexFailureHandler<T extends KubeObject> = (index: string, object: T, error: unknown) => void;

/**
 * The objects of one resource in one cluster, with indexes. It knows uids: an object deleted and made again under
 * the same name is two objects, and whoever follows the changes sees the end of the first.
 */
export class ObjectStore<T extends KubeObject> {
  readonly #indexFunctions: ReadonlyMap<string, IndexFunction<T>>;
  readonly #onIndexFailure: IndexFailureHandler<T>;
  #indexes: Indexes;
  #objects: Map<string, T> = new Map();

  constructor(
    indexes: Readonly<Record<string, IndexFunction<T>>> = {},
    onIndexFailure: IndexFailureHandler<T> = () => undefined,
  ) {
    this.#onIndexFailure = onIndexFailure;
    this.#indexFunctions = new Map(Object.entries(indexes));
    this.#indexes = new Map(Object.keys(indexes).map((name) => [name, new Map()]));
  }

  get size(): number {
    return this.#objects.size;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  values(): IterableIterator<T> {
    return this.#objects.values();
  }

  /** @throws RangeError when no such index was declared. */
  byIndex(index: string, value: string): readonly T[] {
    const values = this.#indexes.get(index);
    if (values === undefined) throw new RangeError(`there is no index "${index}"`);
    const found: T[] = [];
    for (const key of values.get(value) ?? []) {
      const object = this.#objects.get(key);
      if (object !== undefined) found.push(object);
    }
    return found;
  }

  /**
   * Takes over the latest state of one object. No change when it is the version already held.
   * @param initial part of a snapshot and no live event.
   */
  upsert(object: T, initial = false): readonly Change<T>[] {
    const key = storeKey(object);
    const old = this.#objects.get(key);
    if (old !== undefined && isSameVersion(old, object)) return [];
    this.#unindex(this.#indexes, key, old);
    this.#objects.set(key, object);
    this.#index(this.#indexes, key, object);
    return toChanges(old, object, initial);
  }

  /** No change when it is not held, or when what is held is another object of the same name. */
  remove(object: T): readonly Change<T>[] {
    const key = storeKey(object);
    const old = this.#objects.get(key);
    if (
      old === undefined ||
      (old.metadata?.uid !== object.metadata?.uid && object.metadata?.uid !== undefined)
    )
      return [];
    this.#unindex(this.#indexes, key, old);
    this.#objects.delete(key);
    return [{ type: "deleted", object }];
  }

  /** An empty snapshot to be filled while objects arrive, so that taking it over does not stop everything else. */
  beginSnapshot(): Snapshot<T> {
    const objects = new Map<string, T>();
    const indexes = new Map([...this.#indexes.keys()].map((name): [string, Index] => [name, new Map()]));
    return {
      objects,
      indexes,
      put: (given) => {
        const key = storeKey(given);
        const object = this.#reuse(key, given);
        this.#unindex(indexes, key, objects.get(key));
        objects.set(key, object);
        this.#index(indexes, key, object);
      },
      remove: (object) => {
        const key = storeKey(object);
        this.#unindex(indexes, key, objects.get(key));
        objects.delete(key);
      },
    };
  }

  /** Takes over a complete snapshot: what is not in it is deleted. Lazily gives the changes; the store changes at once. */
  replace({ objects, indexes }: Snapshot<T>): Iterable<Change<T>> {
    const before = this.#objects;
    this.#objects = objects;
    this.#indexes = indexes;
    return differences(before, objects);
  }

  /**
   * The object already held when it is the same version, else the one given: a snapshot built of these costs no
   * second copy of what has not changed.
   */
  #reuse(key: string, object: T): T {
    const held = this.#objects.get(key);
    return held !== undefined && isSameVersion(held, object) ? held : object;
  }

  #index(indexes: Indexes, key: string, object: T): void {
    for (const [name, values] of indexes) {
      for (const value of this.#valuesOf(name, object)) {
        const keys = values.get(value);
        if (keys === undefined) values.set(value, new Set([key]));
        else keys.add(key);
      }
    }
  }

  #unindex(indexes: Indexes, key: string, object: T | undefined): void {
    if (object === undefined) return;
    for (const [name, values] of indexes) {
      for (const value of this.#valuesOf(name, object)) {
        const keys = values.get(value);
        keys?.delete(key);
        if (keys?.size === 0) values.delete(value);
      }
    }
  }

  /** All of them before the first is used, so that a generator that throws half-way leaves no half-made entry. */
  #valuesOf(index: string, object: T): readonly string[] {
    try {
      return [...(this.#indexFunctions.get(index)?.(object) ?? [])];
    } catch (error) {
      this.#onIndexFailure(index, object, error);
      return [];
    }
  }
}

function* differences<T extends KubeObject>(
  before: Map<string, T>,
  after: Map<string, T>,
): Generator<Change<T>> {
  for (const [key, object] of before) {
    if (!after.has(key)) yield { type: "deleted", object };
  }
  for (const [key, object] of after) {
    const old = before.get(key);
    if (old === undefined || !isSameVersion(old, object)) yield* toChanges(old, object, true);
  }
}

function toChanges<T extends KubeObject>(
  old: T | undefined,
  object: T,
  initial: boolean,
): readonly Change<T>[] {
  if (old === undefined) return [{ type: "added", object, initial }];
  if (old.metadata?.uid === object.metadata?.uid) return [{ type: "updated", object, old }];
  return [
    { type: "deleted", object: old },
    { type: "added", object, initial },
  ];
}

function isSameVersion(a: KubeObject, b: KubeObject): boolean {
  return a.metadata?.uid === b.metadata?.uid && a.metadata?.resourceVersion === b.metadata?.resourceVersion;
}
