/** Counts nodes for the status of rules from documents. Its result never holds a list of all nodes. */
import { type Stake, Tally, type TallyOptions } from "@berth/host";
import { firstOf, MAX_FIRST_NODES } from "../node/first-names.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import { FOLDER } from "./folder.ts";
import { LABELS } from "./rules.ts";

/** The counts of one rule over all nodes. */
export interface RuleCounts {
  readonly matched: number;
  /** Nodes on which a label is recorded as set by the rule. */
  readonly labelled: number;
  /** Nodes on which a label of the rule waits to be removed. */
  readonly pending: number;
  /** Nodes on which another rule wants another value. `conflictsWith` names one such rule. */
  readonly conflicting: number;
  readonly conflictsWith?: string;
  /** Sorted node names, at most `MAX_FIRST_NODES`. */
  readonly firstMatched: readonly string[];
  readonly firstConflicting: readonly string[];
}

type Phase = "matched" | "labelled" | "pending" | "conflicting";

/** Rules of a folder have no status, so they are not counted. */
export class RuleTally implements NodeObserver {
  readonly #tally: Tally<Phase>;

  constructor(options: TallyOptions) {
    this.#tally = new Tally(options);
  }

  /** Nodes on which rules disagree. */
  get conflicts(): number {
    return this.#tally.total("conflicting");
  }

  counts(rule: string): RuleCounts {
    const matched = this.#tally.of(rule, "matched");
    const conflicting = this.#tally.of(rule, "conflicting");
    const [first] = conflicting;
    const conflictsWith = first === undefined ? undefined : this.#tally.stake(first, rule)?.detail;
    return {
      matched: matched.size,
      labelled: this.#tally.of(rule, "labelled").size,
      pending: this.#tally.of(rule, "pending").size,
      conflicting: conflicting.size,
      ...(conflictsWith !== undefined && { conflictsWith }),
      firstMatched: firstOf(matched, MAX_FIRST_NODES),
      firstConflicting: firstOf(conflicting, MAX_FIRST_NODES),
    };
  }

  decided(name: string, outcome: NodeOutcome): void {
    this.#tally.put(name, stakesOf(outcome));
  }

  gone(name: string): void {
    this.#tally.put(name, []);
  }
}

function stakesOf({ contributions, owned, changes, withheld }: NodeOutcome): readonly Stake<Phase>[] {
  const outcomes = contributions.find(({ capability }) => capability === LABELS)?.decision.outcomes;
  if (outcomes === undefined && owned.size === 0) return [];
  const phases = new Map<string, Set<Phase>>();
  const rivals = new Map<string, string>();
  const note = (rule: string, phase: Phase): void => {
    if (!rule.startsWith(`${FOLDER}/`)) phases.set(rule, (phases.get(rule) ?? new Set()).add(phase));
  };
  for (const { rule, conflictsWith } of outcomes ?? []) {
    note(rule, "matched");
    if (conflictsWith === undefined) continue;
    note(rule, "conflicting");
    rivals.set(rule, conflictsWith);
  }
  for (const { capability, rule } of owned.values()) if (capability === LABELS) note(rule, "labelled");
  for (const { id, rule, capability } of changes)
    if (capability === LABELS && withheld.has(id)) note(rule, "pending");
  return Array.from(phases, ([rule, of]) => {
    const detail = rivals.get(rule);
    return { rule, phases: [...of], ...(detail !== undefined && { detail }) };
  });
}
