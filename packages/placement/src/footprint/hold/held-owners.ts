/** The owners whose deletion waits, by footprint: for status and metrics. */
import type { HeldState } from "./decide.ts";

export interface HeldEntry extends HeldState {
  /** `namespace/name`, or the name alone. */
  readonly name: string;
  readonly uid: string;
}

/** Holds one entry for each held owner of each footprint. */
export class HeldOwners {
  readonly #onChange: (rule: string) => void;
  readonly #rules = new Map<string, Map<string, HeldEntry>>();

  /** @param onChange the held owners of a footprint have changed. Called at once: collect the calls. Must not throw. */
  constructor({ onChange }: { readonly onChange: (rule: string) => void }) {
    this.#onChange = onChange;
  }

  /** Held owners of one footprint, the longest first. */
  of(rule: string): readonly HeldEntry[] {
    const held = [...(this.#rules.get(rule)?.values() ?? [])];
    return held.sort((a, b) => (`${a.since} ${a.name}` < `${b.since} ${b.name}` ? -1 : 1));
  }

  get size(): number {
    return this.#rules.values().reduce((sum, { size }) => sum + size, 0);
  }

  /** `entry` is `undefined` when the owner is no longer held. */
  put(rule: string, owner: string, entry: HeldEntry | undefined): void {
    const held = this.#rules.get(rule) ?? new Map<string, HeldEntry>();
    const before = held.get(owner);
    if (before === undefined && entry === undefined) return;
    if (before?.message === entry?.message && before?.uid === entry?.uid) return;
    if (entry === undefined) held.delete(owner);
    else held.set(owner, entry);
    if (held.size === 0) this.#rules.delete(rule);
    else this.#rules.set(rule, held);
    this.#onChange(rule);
  }

  /** Removes an owner from all footprints: it is gone, or no longer held. @param except rules that still hold it. */
  clear(owner: string, except: readonly string[] = []): void {
    for (const rule of this.#rules.keys()) if (!except.includes(rule)) this.put(rule, owner, undefined);
  }
}
