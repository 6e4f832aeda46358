/** What this process has written and its informers do not show yet. */
import {
  compareResourceVersions,
  type KubeObject,
  type Projection,
  pathOf,
  type Resource,
} from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  type IndexFunction,
  keyOf,
  type Lister,
  type ObjectKey,
  toTime,
} from "@berth/runtime";
import type { WriteClient } from "../objects/intent.ts";

/** What the informer does not show for so long after the last write to it is gone again, ms. */
export const UNSEEN_MS = 30_000;
/** More writes than these are not remembered: the oldest is forgotten. */
const MAX_NOTES = 10_000;

/** The last write to the object of one name. */
interface Note<T> {
  readonly uid: string | undefined;
  /** As the server stored it. `undefined`: the informer has shown that it is gone. */
  readonly object: T | undefined;
  /** When Berth deleted it, wall time. Its newer versions are being deleted as well. */
  readonly deletedAt?: string | undefined;
  readonly atMs: number;
}

export interface OwnWritesOptions<T extends KubeObject> {
  /** What the informers show. */
  readonly shown: Pick<Lister<T>, "get" | "list" | "byIndex">;
  readonly cluster: ClusterName;
  /** Those of the informers. */
  readonly indexes: () => Readonly<Record<string, IndexFunction<T>>>;
  /** That of the informers: what was written takes no more memory than what will be shown. */
  readonly project: Projection<T>;
  readonly clock: Pick<Clock, "monotonic" | "now" | "schedule">;
  /** The informers have not shown this object for `UNSEEN_MS` after it was written. */
  readonly onLost: (object: T) => void;
}

/**
 * What one controller has stored, all controllers of the process see at once. An object is its newest known version:
 * that of the informer, or that of the last write.
 */
export class OwnWrites<T extends KubeObject> implements Pick<Lister<T>, "get" | "list" | "byIndex"> {
  readonly #options: OwnWritesOptions<T>;
  /** By namespace and name, the oldest first. */
  readonly #notes = new Map<string, Note<T>>();

  constructor(options: OwnWritesOptions<T>) {
    this.#options = options;
  }

  get(key: ObjectKey): T | undefined {
    return this.#newest(pathOf(key), this.#options.shown.get(key));
  }

  *list(): IterableIterator<T> {
    yield* this.#over(this.#options.shown.list(), () => true);
  }

  byIndex(index: string, value: string): readonly T[] {
    const { shown, indexes } = this.#options;
    const found = shown.byIndex(index, value);
    if (this.#notes.size === 0) return found;
    const valuesOf = indexes()[index];
    return [...this.#over(found, (object) => valuesOf?.(object).includes(value) === true)];
  }

  /** @param stored as the API server returned it after a creation or a patch. */
  note(stored: KubeObject | undefined): void {
    const { uid } = stored?.metadata ?? {};
    if (stored === undefined || uid === undefined) return;
    // Also of one that is late: whatever waited for it refers to it for a while.
    const object = this.#options.project(stored as T);
    const id = pathOf(stored.metadata);
    const known = this.#notes.get(id);
    const ofSame = known?.uid === uid ? known : undefined;
    const shown = this.#shownOf(stored);
    // Events, and answers to later writes, may come before this answer.
    const isLate = [shown, known?.object].some((it) => it !== undefined && !isOlder(it, stored));
    if (isLate || (ofSame !== undefined && ofSame.object === undefined)) return;
    this.#put(id, { uid, object, deletedAt: ofSame?.deletedAt });
  }

  /** @param object the version that was seen when Berth deleted it. */
  noteDeleted(object: KubeObject): void {
    const present = this.get(keyOf(this.#options.cluster, object));
    const { uid } = present?.metadata ?? {};
    if (present === undefined || uid !== object.metadata?.uid) return;
    this.#put(pathOf(present.metadata), {
      uid,
      object: present,
      deletedAt: toTime(this.#options.clock.now()),
    });
  }

  #put(id: string, note: Omit<Note<T>, "atMs">): void {
    this.#notes.delete(id);
    for (const [oldest, known] of this.#notes) {
      const isFull = this.#notes.size >= MAX_NOTES;
      if (!isFull && !this.#isOld(known)) break;
      if (isFull || known.object === undefined) this.#notes.delete(oldest);
    }
    const { clock, onLost } = this.#options;
    const { object } = note;
    const noted = { ...note, atMs: clock.monotonic() };
    this.#notes.set(id, noted);
    // Decisions rest on what may never be shown.
    if (object !== undefined && this.#shownOf(object)?.metadata?.uid !== note.uid)
      clock.schedule(UNSEEN_MS, () => {
        if (this.#notes.get(id) === noted && this.#shownOf(object) === undefined) onLost(object);
      });
  }

  #shownOf(object: KubeObject): T | undefined {
    return this.#options.shown.get(keyOf(this.#options.cluster, object));
  }

  #isOld({ atMs }: Note<T>): boolean {
    return this.#options.clock.monotonic() - atMs >= UNSEEN_MS;
  }

  /** A change that an informer shows: each version, in order. */
  see({ type, object }: Change<T>): void {
    const id = pathOf(object.metadata);
    const note = this.#notes.get(id);
    const { uid, deletionTimestamp } = object.metadata ?? {};
    const isSame = note?.uid === uid;
    if (type === "deleted") {
      // What Berth has made anew under the same name stays.
      if (note === undefined || isSame) this.#put(id, { uid, object: undefined });
      return;
    }
    if (note?.object !== undefined && isOlder(object, note.object)) return;
    if (!isSame || note?.deletedAt === undefined || deletionTimestamp !== undefined) this.#notes.delete(id);
  }

  #newest(id: string, shown: T | undefined): T | undefined {
    const note = this.#notes.get(id);
    if (note?.object === undefined) return shown;
    // An informer that shows an earlier version is behind, however long: it will show what became of this one.
    if (shown === undefined && this.#isOld(note)) return undefined;
    const { uid, object, deletedAt } = note;
    const newest = shown === undefined || isOlder(shown, object) ? object : shown;
    const { metadata } = newest;
    const isEnding =
      deletedAt !== undefined && metadata?.uid === uid && metadata?.deletionTimestamp === undefined;
    return isEnding ? { ...newest, metadata: { ...metadata, deletionTimestamp: deletedAt } } : newest;
  }

  *#over(shown: Iterable<T>, isWanted: (object: T) => boolean): Generator<T> {
    for (const object of shown)
      if (this.#notes.get(pathOf(object.metadata))?.object === undefined) yield object;
    for (const [id, { object }] of this.#notes) {
      if (object === undefined) continue;
      const newest = this.#newest(id, this.#shownOf(object));
      if (newest !== undefined && isWanted(newest)) yield newest;
    }
  }
}

/** Versions that cannot be compared are as good as equal: then the informer is right. */
function isOlder(a: KubeObject, b: KubeObject): boolean {
  const [one = "", other = ""] = [a.metadata?.resourceVersion, b.metadata?.resourceVersion];
  return (compareResourceVersions(one, other) ?? 0) < 0;
}

/** A client, after whose answers the views show at once what it wrote. */
export function noteWrites(
  client: WriteClient,
  of: (resource: Resource) => Pick<OwnWrites<KubeObject>, "note" | "noteDeleted"> | undefined,
): WriteClient {
  const noted = async <R extends KubeObject>(resource: Resource, request: Promise<R>): Promise<R> => {
    const stored = await request;
    of(resource)?.note(stored);
    return stored;
  };
  return {
    // An eviction, and other subresources of a creation, answer with another kind.
    create: (resource, object, options) =>
      options?.subresource === undefined
        ? noted(resource, client.create(resource, object, options))
        : client.create(resource, object, options),
    patch: (resource, name, patch, options) => noted(resource, client.patch(resource, name, patch, options)),
    apply: (resource, body, options) => noted(resource, client.apply(resource, body, options)),
    async delete(resource, name, options) {
      await client.delete(resource, name, options);
      const { uid } = options?.preconditions ?? {};
      of(resource)?.noteDeleted({ metadata: { ...name, ...(uid && { uid }) } });
    },
  };
}
