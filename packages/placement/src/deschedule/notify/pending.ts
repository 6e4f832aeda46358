/** The changes that one notifier has not delivered: one of each node, and a bounded number of nodes. */
import { mergeChanges, type NodeChange } from "./diff.ts";

export interface PendingChange {
  readonly node: string;
  /** Of the node after the change. */
  readonly resourceVersion: string;
  readonly change: NodeChange;
  /** Failed attempts to deliver it. */
  readonly attempts: number;
}

export class PendingChanges {
  readonly #max: number;
  readonly #byNode = new Map<string, PendingChange>();

  /** @param max how many nodes may wait. */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#byNode.size;
  }

  /** Adds a new change. Returns the oldest change if it had to make room. */
  add(later: PendingChange): PendingChange | undefined {
    return this.#put(join(this.#byNode.get(later.node) ?? later, later));
  }

  /** Puts back a change that was not delivered, behind those of other nodes. Otherwise as `add`. */
  putBack(earlier: PendingChange): PendingChange | undefined {
    return this.#put(join(earlier, this.#byNode.get(earlier.node) ?? earlier));
  }

  /** Takes the oldest change. */
  take(): PendingChange | undefined {
    const [oldest] = this.#byNode.values();
    if (oldest !== undefined) this.#byNode.delete(oldest.node);
    return oldest;
  }

  #put(pending: PendingChange): PendingChange | undefined {
    if (pending.change.size === 0) this.#byNode.delete(pending.node);
    else this.#byNode.set(pending.node, pending);
    return this.#byNode.size > this.#max ? this.take() : undefined;
  }
}

function join(earlier: PendingChange, later: PendingChange): PendingChange {
  if (earlier === later) return later;
  const { attempts } = earlier;
  return { ...later, change: mergeChanges(earlier.change, later.change, attempts > 0), attempts };
}
