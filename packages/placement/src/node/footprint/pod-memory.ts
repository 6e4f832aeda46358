/** What a process remembers of the pods of nodes from one look to the next. */
import type { Node } from "@berth/kube";
import type { NodePasts } from "./use.ts";

/**
 * Nodes that are remembered, a few hundred bytes each and some fifty for each pod. Beyond it the one that was not looked at for
 * longest goes, and the next look at it is a first one.
 */
export const MAX_NODES = 20_000;

export class PodMemory {
  readonly #maxNodes: number;
  /** By the uid of the node, the longest ago first. */
  readonly #nodes = new Map<string, NodePasts>();

  /** @param maxNodes default `MAX_NODES`. */
  constructor(maxNodes: number = MAX_NODES) {
    this.#maxNodes = maxNodes;
  }

  /** Empty before the first look. */
  of(node: Node): NodePasts {
    return this.#nodes.get(idOf(node)) ?? nothing;
  }

  note(node: Node, pasts: NodePasts): void {
    const id = idOf(node);
    this.#nodes.delete(id);
    if (pasts.size === 0) return;
    for (const oldest of this.#nodes.keys()) {
      if (this.#nodes.size < this.#maxNodes) break;
      this.#nodes.delete(oldest);
    }
    this.#nodes.set(id, pasts);
  }

  /** Nodes remembered. */
  get size(): number {
    return this.#nodes.size;
  }
}

const nothing: NodePasts = new Map();

/** One that is made anew has other pods. */
function idOf({ metadata }: Node): string {
  return metadata?.uid ?? metadata?.name ?? "";
}
