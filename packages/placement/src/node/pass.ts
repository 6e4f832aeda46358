import type { Node } from "@berth/kube";
import type { Lister } from "@berth/runtime";
import type { NodeObserver, NodeOutcome } from "./observer.ts";

export interface PassOptions {
  /** All names to decide about. `undefined` until they have been read. */
  readonly all: () => Iterable<string> | undefined;
  /** Called once for each pass. */
  readonly onDone: () => void;
}

/** Reports when Berth has decided about each of many. Before that, a count over all of them proves nothing. */
export class Pass {
  readonly #options: PassOptions;
  /** Those with a decision; `undefined` once all have one. */
  #seen: Set<string> | undefined = new Set();
  /** Those without a decision at the last check. The next check waits until all of them have one. */
  #missing = new Set<string>();

  constructor(options: PassOptions) {
    this.#options = options;
  }

  get done(): boolean {
    return this.#seen === undefined;
  }

  /** Earlier decisions no longer count. The caller must queue all again. */
  begin(): void {
    this.#seen = new Set();
    this.#missing = new Set();
  }

  decided(name: string): void {
    this.#seen?.add(name);
    this.#without(name);
  }

  gone(name: string): void {
    this.#seen?.delete(name);
    this.#without(name);
  }

  /** Call it after `begin`, and once all have been read. Later checks run by themselves. */
  check(): void {
    const seen = this.#seen;
    const all = seen && this.#options.all();
    if (seen === undefined || all === undefined) return;
    const missing = new Set<string>();
    for (const name of all) if (!seen.has(name)) missing.add(name);
    this.#missing = missing;
    if (missing.size > 0) return;
    this.#seen = undefined;
    this.#options.onDone();
  }

  #without(name: string): void {
    this.#missing.delete(name);
    if (this.#missing.size === 0) this.check();
  }
}

export interface NodeCountsOptions<K> {
  readonly nodes: Pick<Lister<Node>, "list" | "synced">;
  readonly tally: NodeObserver & { counts(rule: string): K };
  /** Called when every node has been decided since the start, or since `begin`. */
  readonly onDone: () => void;
}

/** The counts of a tally, once every node has been decided. */
export class NodeCounts<K> implements NodeObserver {
  readonly #pass: Pass;
  readonly #tally: NodeCountsOptions<K>["tally"];

  constructor({ nodes, tally, onDone }: NodeCountsOptions<K>) {
    this.#tally = tally;
    const all = (): Iterable<string> | undefined =>
      nodes.synced ? Iterator.from(nodes.list()).map(({ metadata }) => metadata?.name ?? "") : undefined;
    this.#pass = new Pass({ all, onDone });
  }

  get done(): boolean {
    return this.#pass.done;
  }

  /** `undefined` until every node has been decided. */
  of(rule: string): K | undefined {
    return this.done ? this.#tally.counts(rule) : undefined;
  }

  begin(): void {
    this.#pass.begin();
  }

  /** Call it when the nodes are known. */
  check(): void {
    this.#pass.check();
  }

  decided(name: string, outcome: NodeOutcome): void {
    this.#tally.decided?.(name, outcome);
    this.#pass.decided(name);
  }

  written(...about: Parameters<NonNullable<NodeObserver["written"]>>): void {
    this.#tally.written?.(...about);
  }

  gone(name: string): void {
    this.#tally.gone?.(name);
    this.#pass.gone(name);
  }
}
