/** Every moment of a history, as decisions may have seen it. */
import type { KubeObject, Resource } from "@berth/kube";
import type { HistoryEntry } from "@berth/testcluster";

/** The objects of one kind in what stood at one moment. */
export function ofKind<T extends KubeObject>(
  entries: readonly HistoryEntry[],
  resource: Resource<T>,
): readonly T[] {
  return entries.filter((entry) => entry.resource === resource).map(({ object }) => object as T);
}

/**
 * A write rests on the very version of its object, for it is bound to it. All else comes from watches, each of which may be
 * behind by itself. The most that a correct controller can give: what a write goes by was so at some moment since that
 * version was made, or since the step before the last one ended. Then a watch that stands still while one step overtakes
 * another does no harm, nor an older view, in which the object is as old as the rest; and a controller that goes by less
 * is found out.
 */
export class Worlds<V> {
  readonly #history: readonly HistoryEntry[];
  readonly #steps: readonly string[];
  /** `#views[n]` is that after `n` versions. */
  readonly #views: readonly V[];
  readonly #first: number;

  /**
   * @param steps in order, the start included.
   * @param toView what is made of the versions that stand at one moment.
   * @param first no view is older than that after so many versions, but for those in which the object is as old itself.
   * Default 0.
   */
  constructor(
    history: readonly HistoryEntry[],
    steps: readonly string[],
    toView: (standing: readonly HistoryEntry[]) => V,
    first = 0,
  ) {
    this.#history = history;
    this.#steps = steps;
    this.#first = first;
    const kept = new Map<string, HistoryEntry>();
    this.#views = [
      toView([]),
      ...history.map((entry) => {
        const key = `${entry.resource.plural}/${entry.name}`;
        if (entry.type === "DELETED") kept.delete(key);
        else kept.set(key, entry);
        return toView([...kept.values()]);
      }),
    ];
  }

  /** What a watch may have shown to who made this version: see above. What is made anew is bound to no version. */
  behind(entry: HistoryEntry): readonly V[] {
    const at = this.#history.indexOf(entry);
    const step = this.#steps.indexOf(entry.step);
    const seen = entry.before?.metadata?.resourceVersion;
    const made = this.#history.findIndex(({ object }) => object.metadata?.resourceVersion === seen) + 1;
    const bound = seen === undefined ? Number.POSITIVE_INFINITY : made;
    const stepBefore = this.#history.findIndex((one) => this.#steps.indexOf(one.step) >= step - 1);
    return this.#views.slice(Math.min(bound, Math.max(stepBefore, this.#first)), at + 1);
  }

  /** Every moment since the object was made: who looks something up for it asks the server, and not before that. */
  since(entry: HistoryEntry): readonly V[] {
    const { uid } = entry.object.metadata ?? {};
    const made = this.#history.findIndex(({ object }) => object.metadata?.uid === uid);
    return this.#views.slice(made + 1, this.#history.indexOf(entry) + 1);
  }
}
