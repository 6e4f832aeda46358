import type { Node } from "@berth/kube";
import type { Lister } from "@berth/runtime";
import type { NodeObserver } from "./observer.ts";

export interface FirstPassOptions {
  readonly nodes: Pick<Lister<Node>, "list" | "size" | "synced">;
  /** Called once. */
  readonly onDone: () => void;
}

/** Reports when Berth has decided every node once since its start. Counts over all nodes are wrong before that. */
export class FirstPass implements NodeObserver {
  readonly #options: FirstPassOptions;
  /** Nodes that were decided; `undefined` after all were. */
  #seen: Set<string> | undefined = new Set();

  constructor(options: FirstPassOptions) {
    this.#options = options;
  }

  get done(): boolean {
    return this.#seen === undefined;
  }

  decided(name: string): void {
    this.#seen?.add(name);
    this.check();
  }

  gone(name: string): void {
    this.#seen?.delete(name);
    this.check();
  }

  /** Call once when the nodes are synced. Later the other methods call it. */
  check(): void {
    const { nodes, onDone } = this.#options;
    const seen = this.#seen;
    if (seen === undefined || !nodes.synced || seen.size < nodes.size) return;
    for (const { metadata } of nodes.list()) if (!seen.has(metadata?.name ?? "")) return;
    this.#seen = undefined;
    onDone();
  }
}
