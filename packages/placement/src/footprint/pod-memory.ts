/** What a process remembers of the pods of nodes from one look to the next. */
import type { Node } from "@berth/kube";
import type { NodePasts } from "./use.ts";

interface Remembered {
  readonly uid: string | undefined;
  readonly pasts: NodePasts;
}

/** By node; some hundred bytes for each pod that counts. One that is made anew has other pods. */
export class PodMemory {
  readonly #nodes = new Map<string, Remembered>();

  /** Empty before the first look. */
  of({ metadata }: Node): NodePasts {
    const found = this.#nodes.get(metadata?.name ?? "");
    return found !== undefined && found.uid === metadata?.uid ? found.pasts : nothing;
  }

  note({ metadata }: Node, pasts: NodePasts): void {
    const name = metadata?.name ?? "";
    if (pasts.size === 0) this.#nodes.delete(name);
    else this.#nodes.set(name, { uid: metadata?.uid, pasts });
  }

  /** The node is gone. */
  forget(name: string): void {
    this.#nodes.delete(name);
  }

  /** Nodes remembered. */
  get size(): number {
    return this.#nodes.size;
  }
}

const nothing: NodePasts = new Map();
