/** A cache with what this process has written and its informer does not show yet. */
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
  type Informer,
  keyOf,
  type Lister,
  type ObjectKey,
  toTime,
} from "@berth/runtime";

/** What the informer does not show for so long after the last write to it is gone again, ms. */
export const UNSEEN_MS = 30_000;
/** More writes than these are not remembered: the oldest is forgotten. */
const MAX_NOTES = 10_000;

type Behind<T extends KubeObject> = Pick<
  Informer<T>,
  "cluster" | "synced" | "get" | "list" | "byIndex" | "subscribe"
>;

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
  readonly resource: Resource<T>;
  readonly informer: Behind<T>;
  /** Those of the informer. */
  readonly indexes?: Readonly<Record<string, (object: T) => readonly string[]>> | undefined;
  /** That of the informer: what was written takes no more memory than what will be shown. Default: all is kept. */
  readonly project?: Projection<T> | undefined;
  readonly clock: Pick<Clock, "monotonic" | "now">;
}

/**
 * What one controller has stored, all controllers of the process see at once. An object is its newest known version:
 * that of the informer, or that of the last write.
 */
export class OwnWrites<T extends KubeObject>
  implements Pick<Lister<T>, "get" | "list" | "byIndex" | "synced">
{
  readonly resource: Resource;
  readonly #options: OwnWritesOptions<T>;
  /** By namespace and name, the oldest first. */
  readonly #notes = new Map<string, Note<T>>();

  constructor(options: OwnWritesOptions<T>) {
    this.resource = options.resource;
    this.#options = options;
    options.informer.subscribe({ onChange: (change) => this.#shown(change) });
  }

  get synced(): boolean {
    return this.#options.informer.synced;
  }

  /** Changes that the informer shows. A write of this process is one of them, later. */
  subscribe(handler: { onChange(change: Change<T>): void }): Disposable {
    return this.#options.informer.subscribe(handler);
  }

  get(key: ObjectKey): T | undefined {
    return this.#newest(pathOf(key), this.#options.informer.get(key));
  }

  *list(): IterableIterator<T> {
    yield* this.#over(this.#options.informer.list(), () => true);
  }

  byIndex(index: string, value: string): readonly T[] {
    const { informer, indexes = {} } = this.#options;
    const shown = informer.byIndex(index, value);
    if (this.#notes.size === 0) return shown;
    return [...this.#over(shown, (object) => indexes[index]?.(object).includes(value) === true)];
  }

  /** The informer has not shown it. While a decision rests on it, a look is due after `UNSEEN_MS`. */
  isUnseen(object: T): boolean {
    const shown = this.#options.informer.get(keyOf(this.#options.informer.cluster, object));
    return shown?.metadata?.uid !== object.metadata?.uid;
  }

  /** @param stored as the API server returned it after a creation or a patch. */
  note(stored: KubeObject | undefined): void {
    const { uid } = stored?.metadata ?? {};
    if (stored === undefined || uid === undefined) return;
    const { project = (it) => it } = this.#options;
    // Also of one that is late: whatever waited for it refers to it for a while.
    const object = project(stored as T);
    const id = pathOf(stored.metadata);
    const known = this.#notes.get(id);
    const ofSame = known?.uid === uid ? known : undefined;
    const shown = this.#options.informer.get(keyOf(this.#options.informer.cluster, stored));
    // Events, and answers to later writes, may come before this answer.
    const isLate = [shown, known?.object].some((it) => it !== undefined && !isOlder(it, stored));
    if (isLate || (ofSame !== undefined && ofSame.object === undefined)) return;
    this.#put(id, { uid, object, deletedAt: ofSame?.deletedAt });
  }

  /** @param object the version that was seen when Berth deleted it. */
  noteDeleted(object: KubeObject): void {
    const present = this.get(keyOf(this.#options.informer.cluster, object));
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
    this.#notes.set(id, { ...note, atMs: this.#options.clock.monotonic() });
  }

  #isOld({ atMs }: Note<T>): boolean {
    return this.#options.clock.monotonic() - atMs >= UNSEEN_MS;
  }

  #shown({ type, object }: Change<T>): void {
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
      const { informer } = this.#options;
      const newest = this.#newest(id, informer.get(keyOf(informer.cluster, object)));
      if (newest !== undefined && isWanted(newest)) yield newest;
    }
  }
}

/** Versions that cannot be compared are as good as equal: then the informer is right. */
function isOlder(a: KubeObject, b: KubeObject): boolean {
  const [one = "", other = ""] = [a.metadata?.resourceVersion, b.metadata?.resourceVersion];
  return (compareResourceVersions(one, other) ?? 0) < 0;
}
