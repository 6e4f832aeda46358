import { type KubeObject, pathOf } from "@berth/kube";
import type { Change } from "./lister.ts";

/**
 * Returns the index values of an object; an empty list keeps it out of the index. Pure: the store calls it when it adds
 * a version of an object and again when it removes that version. On an error there are no values.
 */
export type IndexFunction<T extends KubeObject> = (object: T) => readonly string[];

/** Most values of an index have few objects. An array of their keys takes less than half the memory of a set. */
const MAX_ARRAY = 16;
type Keys = readonly string[] | Set<string>;
/** For each value, the keys of the objects with that value. */
type Index = Map<string, Keys>;
type Indexes = ReadonlyMap<string, Index>;

/** A state of the store that is being built. It indexes each object on arrival, so taking it over takes no time. */
export interface Snapshot<T extends KubeObject> {
  readonly objects: Map<string, T>;
  readonly indexes: Indexes;
  /** Keeps the object already held when the version is the same, so unchanged objects are not held twice. */
  put(object: T): void;
  remove(object: T): void;
}

/** Called when an index function throws. */
export type IndexFailureHandler<T extends KubeObject> = (index: string, object: T, error: unknown) => void;

/**
 * The objects of one resource in one cluster, with indexes. It compares uids. An object deleted and recreated under the
 * same name is two objects, and subscribers see the first one deleted.
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
    const key = pathOf(object.metadata);
    const old = this.#objects.get(key);
    if (old !== undefined && isSameVersion(old, object)) return [];
    this.#unindex(this.#indexes, key, old);
    this.#objects.set(key, object);
    this.#index(this.#indexes, key, object);
    return toChanges(old, object, initial);
  }

  /** Changes nothing when the object is not held, or when another object of the same name is held. */
  remove(object: T): readonly Change<T>[] {
    const key = pathOf(object.metadata);
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

  /** Begins an empty snapshot. Objects fill it as they arrive, so taking it over does not block other work. */
  beginSnapshot(): Snapshot<T> {
    const objects = new Map<string, T>();
    const indexes = new Map([...this.#indexes.keys()].map((name): [string, Index] => [name, new Map()]));
    return {
      objects,
      indexes,
      put: (given) => {
        const key = pathOf(given.metadata);
        const object = this.#reuse(key, given);
        this.#unindex(indexes, key, objects.get(key));
        objects.set(key, object);
        this.#index(indexes, key, object);
      },
      remove: (object) => {
        const key = pathOf(object.metadata);
        this.#unindex(indexes, key, objects.get(key));
        objects.delete(key);
      },
    };
  }

  /** Takes over a complete snapshot and deletes all other objects at once. Returns the changes lazily. */
  replace({ objects, indexes }: Snapshot<T>): Iterable<Change<T>> {
    const before = this.#objects;
    this.#objects = objects;
    this.#indexes = indexes;
    return differences(before, objects);
  }

  /**
   * Returns the object already held when the version is the same, else the given one. A snapshot of these holds no
   * second copy of unchanged objects.
   */
  #reuse(key: string, object: T): T {
    const held = this.#objects.get(key);
    return held !== undefined && isSameVersion(held, object) ? held : object;
  }

  #index(indexes: Indexes, key: string, object: T): void {
    for (const [name, values] of indexes) {
      for (const value of this.#valuesOf(name, object)) {
        values.set(value, withKey(values.get(value), key));
      }
    }
  }

  #unindex(indexes: Indexes, key: string, object: T | undefined): void {
    if (object === undefined) return;
    for (const [name, values] of indexes) {
      for (const value of this.#valuesOf(name, object)) {
        const keys = withoutKey(values.get(value), key);
        if (keys === undefined) values.delete(value);
        else values.set(value, keys);
      }
    }
  }

  /** Computes all values before it uses the first, so a generator that throws half-way leaves no partial entry. */
  #valuesOf(index: string, object: T): readonly string[] {
    try {
      return [...(this.#indexFunctions.get(index)?.(object) ?? [])];
    } catch (error) {
      this.#onIndexFailure(index, object, error);
      return [];
    }
  }
}

function withKey(keys: Keys = [], key: string): Keys {
  if (keys instanceof Set) return keys.add(key);
  if (keys.includes(key)) return keys;
  // V8 makes the copy of `concat` as long as it has to be, and leaves room behind that of a spread.
  return keys.length < MAX_ARRAY ? keys.concat(key) : new Set(keys).add(key);
}

/** `undefined` when no key is left. */
function withoutKey(keys: Keys = [], key: string): Keys | undefined {
  if (!(keys instanceof Set)) {
    const left = keys.filter((one) => one !== key);
    return left.length === 0 ? undefined : left;
  }
  keys.delete(key);
  return keys.size === 0 ? undefined : keys;
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
