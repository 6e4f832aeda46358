/** Counts the effects of rules over all nodes or workloads. */

/** The effect of one rule on one key. */
export interface Stake<P extends string> {
  readonly rule: string;
  /** Without duplicates. Share the array between keys to save memory: there may be one for each node. */
  readonly phases: readonly P[];
  /** Further information. A change of it counts as a change of the counts. */
  readonly detail?: string;
}

export interface TallyOptions {
  /** Called synchronously and often when the counts of a rule change: collect the calls. */
  readonly onChange: (rule: string) => void;
}

const NONE: ReadonlySet<string> = new Set();

/** A change of a key costs a few set operations. A key without rules costs nothing. */
export class Tally<P extends string> {
  readonly #onChange: TallyOptions["onChange"];
  readonly #stakes = new Map<string, readonly Stake<P>[]>();
  /** Keys by rule and phase. */
  readonly #rules = new Map<string, Map<P, Set<string>>>();

  constructor({ onChange }: TallyOptions) {
    this.#onChange = onChange;
  }

  /** The keys of a rule in this phase, in the order of their arrival. */
  of(rule: string, phase: P): ReadonlySet<string> {
    return this.#rules.get(rule)?.get(phase) ?? NONE;
  }

  /** The keys that are in this phase of any rule. */
  all(phase: P): ReadonlySet<string> {
    const sets = Array.from(this.#rules.values(), (phases) => phases.get(phase) ?? NONE);
    return sets.reduce((all, set) => all.union(set), NONE);
  }

  /** How many keys are in this phase of any rule. */
  total(phase: P): number {
    return this.all(phase).size;
  }

  stake(key: string, rule: string): Stake<P> | undefined {
    return this.#stakes.get(key)?.find((stake) => stake.rule === rule);
  }

  /** @param stakes all stakes of this key; at most one for each rule. */
  put(key: string, stakes: readonly Stake<P>[]): void {
    const before = this.#stakes.get(key) ?? [];
    if (stakes.length > 0) this.#stakes.set(key, stakes);
    else this.#stakes.delete(key);
    for (const stake of stakes) {
      const last = before.find(({ rule }) => rule === stake.rule);
      this.#move(key, stake.rule, last, stake);
    }
    for (const last of before)
      if (!stakes.some(({ rule }) => rule === last.rule)) this.#move(key, last.rule, last, undefined);
  }

  #move(key: string, rule: string, last: Stake<P> | undefined, next: Stake<P> | undefined): void {
    const phases = this.#rules.get(rule) ?? new Map<P, Set<string>>();
    let isChanged = last?.detail !== next?.detail;
    for (const phase of last?.phases ?? []) {
      if (next?.phases.includes(phase)) continue;
      const set = phases.get(phase);
      set?.delete(key);
      if (set?.size === 0) phases.delete(phase);
      isChanged = true;
    }
    for (const phase of next?.phases ?? []) {
      if (last?.phases.includes(phase)) continue;
      phases.set(phase, (phases.get(phase) ?? new Set()).add(key));
      isChanged = true;
    }
    if (phases.size > 0) this.#rules.set(rule, phases);
    else this.#rules.delete(rule);
    if (isChanged) this.#onChange(rule);
  }
}
