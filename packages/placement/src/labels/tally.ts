/** Counts over all nodes what the rules of documents do, for their status: no list of nodes leaves this file. */

import { firstOf, MAX_FIRST_NODES } from "../node/first-names.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import { FOLDER } from "./folder.ts";
import { LABELS } from "./rules.ts";

/** What is known about one rule, over all nodes. */
export interface RuleCounts {
  readonly matched: number;
  /** Nodes on which a label is recorded as set by the rule. */
  readonly labelled: number;
  /** Nodes on which a label of the rule waits to be removed. */
  readonly pending: number;
  /** Nodes on which another rule wants another value, with the first such rule. */
  readonly conflicting: number;
  readonly conflictsWith?: string;
  /** Names, sorted, at most `MAX_FIRST_NODES`. */
  readonly firstMatched: readonly string[];
  readonly firstConflicting: readonly string[];
}

interface Sets {
  readonly matched: Set<string>;
  readonly labelled: Set<string>;
  readonly pending: Set<string>;
  readonly conflicting: Map<string, string>;
}

/** What one node has to do with one rule. */
interface Stake {
  readonly rule: string;
  matched: boolean;
  labelled: boolean;
  pending: boolean;
  conflictsWith?: string;
}

export interface RuleTallyOptions {
  /** The counts of a rule have changed. Called often and at once: collect them. */
  readonly onChange: (rule: string) => void;
}

/** Costs a few set operations for each node that a rule of a document concerns, and nothing for others. */
export class RuleTally implements NodeObserver {
  readonly #onChange: (rule: string) => void;
  readonly #rules = new Map<string, Sets>();
  readonly #stakes = new Map<string, readonly Stake[]>();

  constructor({ onChange }: RuleTallyOptions) {
    this.#onChange = onChange;
  }

  /** Nodes on which rules disagree. */
  get conflicts(): number {
    const nodes = new Set<string>();
    for (const { conflicting } of this.#rules.values())
      for (const name of conflicting.keys()) nodes.add(name);
    return nodes.size;
  }

  counts(rule: string): RuleCounts {
    const sets = this.#rules.get(rule);
    if (sets === undefined) return nothing;
    const { matched, labelled, pending, conflicting } = sets;
    const [conflictsWith] = conflicting.values();
    return {
      matched: matched.size,
      labelled: labelled.size,
      pending: pending.size,
      conflicting: conflicting.size,
      ...(conflictsWith !== undefined && { conflictsWith }),
      firstMatched: firstOf(matched, MAX_FIRST_NODES),
      firstConflicting: firstOf(conflicting.keys(), MAX_FIRST_NODES),
    };
  }

  decided(name: string, outcome: NodeOutcome): void {
    const before = this.#stakes.get(name);
    const stakes = stakesOf(outcome);
    if (stakes.length === 0 && before === undefined) return;
    if (stakes.length === 0) this.#stakes.delete(name);
    else this.#stakes.set(name, stakes);
    const now = new Map(stakes.map((stake) => [stake.rule, stake]));
    for (const stake of stakes) this.#apply(name, stake);
    for (const { rule } of before ?? []) if (!now.has(rule)) this.#apply(name, { ...absent, rule });
  }

  gone(name: string): void {
    for (const { rule } of this.#stakes.get(name) ?? []) this.#apply(name, { ...absent, rule });
    this.#stakes.delete(name);
  }

  #apply(name: string, { rule, matched, labelled, pending, conflictsWith }: Stake): void {
    let sets = this.#rules.get(rule);
    if (sets === undefined) {
      sets = { matched: new Set(), labelled: new Set(), pending: new Set(), conflicting: new Map() };
      this.#rules.set(rule, sets);
    }
    const changes = [
      put(sets.matched, name, matched),
      put(sets.labelled, name, labelled),
      put(sets.pending, name, pending),
      sets.conflicting.get(name) !== conflictsWith,
    ];
    if (conflictsWith === undefined) sets.conflicting.delete(name);
    else sets.conflicting.set(name, conflictsWith);
    if (sets.matched.size + sets.labelled.size + sets.pending.size === 0) this.#rules.delete(rule);
    if (changes.includes(true)) this.#onChange(rule);
  }
}

const nothing: RuleCounts = {
  matched: 0,
  labelled: 0,
  pending: 0,
  conflicting: 0,
  firstMatched: [],
  firstConflicting: [],
};

const absent = { matched: false, labelled: false, pending: false } as const;

/** Rules of a folder have no status, so they are not counted. */
function isCounted(rule: string): boolean {
  return !rule.startsWith(`${FOLDER}/`);
}

function stakesOf({ contributions, owned, changes, withheld }: NodeOutcome): readonly Stake[] {
  const outcomes = contributions.find(({ capability }) => capability === LABELS)?.decision.outcomes;
  if (outcomes === undefined && owned.size === 0) return [];
  const stakes = new Map<string, Stake>();
  const stakeOf = (rule: string): Stake => {
    let stake = stakes.get(rule);
    if (stake === undefined) stakes.set(rule, (stake = { ...absent, rule }));
    return stake;
  };
  for (const { rule, conflictsWith } of outcomes ?? []) {
    if (!isCounted(rule)) continue;
    const stake = stakeOf(rule);
    stake.matched = true;
    if (conflictsWith !== undefined) stake.conflictsWith = conflictsWith;
  }
  for (const { capability, rule } of owned.values()) {
    if (capability === LABELS && isCounted(rule)) stakeOf(rule).labelled = true;
  }
  for (const { id, rule, capability } of changes) {
    if (capability === LABELS && withheld.has(id) && isCounted(rule)) stakeOf(rule).pending = true;
  }
  return [...stakes.values()];
}

/** @returns whether it changed anything. */
function put(set: Set<string>, name: string, inside: boolean): boolean {
  if (set.has(name) === inside) return false;
  if (inside) set.add(name);
  else set.delete(name);
  return true;
}
