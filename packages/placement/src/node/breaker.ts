import { type Stake, Tally } from "@berth/host";
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

/** Wall-clock and monotonic time, ms. */
export interface Times {
  readonly now: Instant;
  readonly nowMs: number;
}

type Phase = "carrying" | "losing";

/**
 * Counts over all nodes which would lose marks because inputs vanished, so that a broken source does not strip a
 * fleet. Per rule, because the share that matters is that of the nodes which carry its marks.
 */
export class RemovalBreakers {
  readonly #tally: Tally<Phase>;
  /** By rule the nodes that have lost a mark, with when: monotonic ms, oldest first. */
  readonly #lost = new Map<string, Map<string, number>>();
  readonly #frozen = new Set<string>();
  readonly #onChange: (rule: string, frozen: boolean) => void;

  /** @param onChange hears when the removals of a rule freeze, and when they go on. */
  constructor(onChange: (rule: string, frozen: boolean) => void = () => {}) {
    this.#onChange = onChange;
    this.#tally = new Tally({
      onChange: (rule) => {
        if (this.#tally.of(rule, "losing").size === 0) this.#freeze(rule, false);
      },
    });
  }

  /** Rules whose removals are frozen now, in order of name. */
  get frozen(): readonly FrozenRule[] {
    return [...this.#frozen].sort().map((rule) => ({
      rule,
      losing: this.#count(rule, "losing"),
      carrying: this.#count(rule, "carrying"),
    }));
  }

  /** Of which rules the node carries a mark, and would lose one. */
  put(node: string, stakes: readonly Stake<Phase>[]): void {
    this.#tally.put(node, stakes);
  }

  /** The node has lost a mark of the rule. */
  lost(node: string, rule: string, nowMs: number): void {
    const lost = this.#lost.get(rule) ?? new Map<string, number>();
    lost.delete(node);
    this.#lost.set(rule, lost.set(node, nowMs));
  }

  /** Must removals of the rule wait for a person? */
  isFrozen(rule: string, { breaker, confirmedAt }: RemovalPolicy, { now, nowMs }: Times): boolean {
    const lost = this.#lost.get(rule);
    for (const [node, at] of lost ?? []) {
      if (nowMs - at < BREAKER_WINDOW_MS) break;
      lost?.delete(node);
    }
    if (lost?.size === 0) this.#lost.delete(rule);
    const limit = breaker && removalLimit(breaker, this.#count(rule, "carrying"));
    const isTooMany = limit !== undefined && this.#count(rule, "losing") > limit;
    this.#freeze(rule, isTooMany && !isFreshlyConfirmed(confirmedAt, now));
    return this.#frozen.has(rule);
  }

  #freeze(rule: string, frozen: boolean): void {
    if (this.#frozen.has(rule) === frozen) return;
    if (frozen) this.#frozen.add(rule);
    else this.#frozen.delete(rule);
    this.#onChange(rule, frozen);
  }

  /** A node that has lost its mark counts as losing and carrying one for a while. */
  #count(rule: string, phase: Phase): number {
    const nodes = this.#tally.of(rule, phase);
    let count = nodes.size;
    for (const node of this.#lost.get(rule)?.keys() ?? []) if (!nodes.has(node)) count += 1;
    return count;
  }
}
