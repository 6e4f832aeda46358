/** What Berth has created, and its cache does not show yet. */
import type { KubeObject } from "@berth/kube";
import { type Clock, type Informer, keyOf } from "@berth/runtime";

/** A creation that the cache does not show for so long was deleted in between, ms. */
export const UNSEEN_MS = 30_000;

/**
 * An owner that is deleted waits for what Berth has made for it. Without this, one that is deleted right after a
 * creation would be let go while the new object lives on.
 */
export class OwnCreations<T extends KubeObject> {
  readonly #informer: Pick<Informer<T>, "subscribe" | "get" | "cluster">;
  readonly #clock: Pick<Clock, "monotonic">;
  /** By uid, the oldest first. */
  readonly #made = new Map<string, { readonly object: T; readonly atMs: number }>();

  constructor(informer: Pick<Informer<T>, "subscribe" | "get" | "cluster">, clock: Pick<Clock, "monotonic">) {
    this.#informer = informer;
    this.#clock = clock;
    informer.subscribe({ onChange: ({ object }) => void this.#made.delete(object.metadata?.uid ?? "") });
  }

  /** @param stored as the API server returned it. */
  note(stored: KubeObject | undefined): void {
    const { uid } = stored?.metadata ?? {};
    if (stored === undefined || uid === undefined) return;
    this.#expire();
    const { cluster } = this.#informer;
    // An event may come before the answer.
    if (this.#informer.get(keyOf(cluster, stored))?.metadata?.uid === uid) return;
    this.#made.set(uid, { object: stored as T, atMs: this.#clock.monotonic() });
  }

  /** What was made for this owner and is not seen yet. While there is such, a look is due after `UNSEEN_MS`. */
  of(owner: KubeObject): readonly T[] {
    this.#expire();
    return [...this.#made.values()]
      .map(({ object }) => object)
      .filter(({ metadata }) => metadata?.ownerReferences?.some(({ uid }) => uid === owner.metadata?.uid));
  }

  #expire(): void {
    const nowMs = this.#clock.monotonic();
    for (const [uid, { atMs }] of this.#made) {
      if (nowMs - atMs < UNSEEN_MS) return;
      this.#made.delete(uid);
    }
  }
}
