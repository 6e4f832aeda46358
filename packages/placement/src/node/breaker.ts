import type { Instant, RemovalBreaker, RemovalPolicy } from "./capability.ts";

/** Removals of one rule within this time count as "at once". Milliseconds. */
export const BREAKER_WINDOW_MS = 60_000;

/** For how long after a confirmation removals of the rule do not freeze. Milliseconds. */
export const CONFIRMED_MS: number = 10 * 60_000;

/**
 * Is a confirmation of this time fresh, so that removals of the rule do not freeze? One that is dated in the future
 * confirms nothing yet, or it would hold for ever.
 */
export function isFreshlyConfirmed(at: Instant | undefined, now: Instant): boolean {
  return at !== undefined && now >= at && now < at + CONFIRMED_MS;
}

/** How many nodes may lose marks of a rule at once, when so many carry them. */
export function removalLimit({ percent, nodes }: RemovalBreaker, carrying: number): number {
  return Math.max(nodes, Math.floor((carrying * percent) / 100));
}

/** A rule whose removals are frozen. */
export interface FrozenRule {
  readonly rule: string;
  /** Nodes that would lose a mark of the rule, or lost one within the last minute. */
  readonly losing: number;
  /** Nodes that carry a mark of the rule, those included. */
  readonly carrying: number;
}

interface Count {
  readonly carrying: Set<string>;
  readonly losing: Set<string>;
  /** Nodes that have lost a mark, with when: monotonic ms, oldest first. */
  readonly lost: Map<string, number>;
  frozen: boolean;
}

/** What is known of one node for one rule. */
export interface NodeStake {
  readonly node: string;
  readonly rule: string;
}

/**
 * Counts over all nodes which would lose marks because inputs vanished, so that a broken source does not strip a
 * fleet. Per rule, because the share that matters is that of the nodes which carry its marks.
 *
 * Costs a few set operations for each node that carries such a mark, and nothing for others.
 */
export class RemovalBreakers {
  readonly #counts = new Map<string, Count>();
  readonly #onChange: (rule: string, frozen: boolean) => void;

  /** @param onChange hears when the removals of a rule freeze, and when they go on. */
  constructor(onChange: (rule: string, frozen: boolean) => void = () => {}) {
    this.#onChange = onChange;
  }

  /** Rules whose removals are frozen now, in order of name. */
  get frozen(): readonly FrozenRule[] {
    const frozen: FrozenRule[] = [];
    for (const [rule, count] of this.#counts) {
      const { losing, carrying } = sizes(count);
      if (count.frozen) frozen.push({ rule, losing, carrying });
    }
    return frozen.sort((a, b) => (a.rule < b.rule ? -1 : 1));
  }

  /** The node carries a mark of the rule, or no longer does. */
  carries({ node, rule }: NodeStake, carries: boolean): void {
    if (carries) this.#countOf(rule).carrying.add(node);
    else this.#drop(rule, ({ carrying }) => carrying.delete(node));
  }

  /** The node would lose a mark of the rule, or no longer would. */
  loses({ node, rule }: NodeStake, loses: boolean): void {
    if (loses) this.#countOf(rule).losing.add(node);
    else this.#drop(rule, ({ losing }) => losing.delete(node));
  }

  /** The node has lost a mark of the rule. */
  lost({ node, rule }: NodeStake, nowMs: number): void {
    const { lost } = this.#countOf(rule);
    lost.delete(node);
    lost.set(node, nowMs);
  }

  /** Must removals of the rule wait for a person? */
  isFrozen(rule: string, policy: RemovalPolicy, { now, nowMs }: Times): boolean {
    const { breaker, confirmedAt } = policy;
    const count = this.#counts.get(rule);
    if (count === undefined) return false;
    for (const [node, at] of count.lost) {
      if (nowMs - at < BREAKER_WINDOW_MS) break;
      count.lost.delete(node);
    }
    const confirmed = isFreshlyConfirmed(confirmedAt, now);
    const { losing, carrying } = sizes(count);
    const frozen = breaker !== undefined && !confirmed && losing > removalLimit(breaker, carrying);
    this.#set(rule, count, frozen);
    return frozen;
  }

  #set(rule: string, count: Count, frozen: boolean): void {
    if (count.frozen === frozen) return;
    count.frozen = frozen;
    this.#onChange(rule, frozen);
  }

  #countOf(rule: string): Count {
    let count = this.#counts.get(rule);
    if (count === undefined) {
      count = { carrying: new Set(), losing: new Set(), lost: new Map(), frozen: false };
      this.#counts.set(rule, count);
    }
    return count;
  }

  #drop(rule: string, from: (count: Count) => void): void {
    const count = this.#counts.get(rule);
    if (count === undefined) return;
    from(count);
    if (count.losing.size === 0) this.#set(rule, count, false);
    if (count.carrying.size + count.losing.size + count.lost.size === 0) this.#counts.delete(rule);
  }
}

/** Wall-clock and monotonic time, ms. */
export interface Times {
  readonly now: Instant;
  readonly nowMs: number;
}

function sizes({ carrying, losing, lost }: Count): { readonly losing: number; readonly carrying: number } {
  let alsoLosing = 0;
  let alsoCarrying = 0;
  for (const node of lost.keys()) {
    if (!losing.has(node)) alsoLosing += 1;
    if (!carrying.has(node)) alsoCarrying += 1;
  }
  return { losing: losing.size + alsoLosing, carrying: carrying.size + alsoCarrying };
}
