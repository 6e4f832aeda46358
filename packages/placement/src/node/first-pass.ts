import type { Node } from "@berth/kube";
import type { Lister } from "@berth/runtime";
import type { NodeObserver } from "./observer.ts";

export interface FirstPassOptions {
  readonly nodes: Pick<Lister<Node>, "list" | "size" | "synced">;
  /** Called once. */
  readonly onDone: () => void;
}

/** Tells when every node has been looked at since the start: what is counted over all nodes is not true before. */
export class FirstPass implements NodeObserver {
  readonly #options: FirstPassOptions;
  /** Nodes that have been looked at; `undefined` once that is all. */
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

  /** Call when the nodes are synced; afterwards it finds out by itself. */
  check(): void {
    const { nodes, onDone } = this.#options;
    const seen = this.#seen;
    if (seen === undefined || !nodes.synced || seen.size < nodes.size) return;
    for (const { metadata } of nodes.list()) if (!seen.has(metadata?.name ?? "")) return;
    this.#seen = undefined;
    onDone();
  }
}
