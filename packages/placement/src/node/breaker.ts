import { type Stake, Tally } from "@berth/host";
import type { Instant, RemovalBreaker, RemovalPolicy } from "./capability.ts";

/** Removals of one rule within this time count as "at once". Milliseconds. */
export const BREAKER_WINDOW_MS = 60_000;

/** For how long after a confirmation removals of the rule do not freeze. Milliseconds. */
export const CONFIRMED_MS: number = 10 * 60_000;

/**
 * True while a confirmation prevents the freeze of removals: for `CONFIRMED_MS` from its time. A confirmation dated in
 * the future has no effect yet; otherwise it could last for ever.
 */
export function isFreshlyConfirmed(at: Instant | undefined, now: Instant): boolean {
  return at !== undefined && now >= at && now < at + CONFIRMED_MS;
}

/** The number of nodes that may lose marks of a rule at once, out of `carrying` nodes that have them. */
export function removalLimit({ percent, nodes }: RemovalBreaker, carrying: number): number {
  return Math.max(nodes, Math.floor((carrying * percent) / 100));
}

export interface FrozenRule {
  readonly rule: string;
  /** Nodes that would lose a mark of the rule, or lost one within the last minute. */
  readonly losing: number;
  /** Nodes that carry a mark of the rule, including `losing`. */
  readonly carrying: number;
}

/** Wall-clock and monotonic time, ms. */
export interface Times {
  readonly now: Instant;
  readonly nowMs: number;
}

type Phase = "carrying" | "losing";

/**
 * Counts the nodes that would lose marks because inputs disappeared, so that a broken source does not remove marks from
 * all nodes. Counts per rule, because the limit is a share of the nodes that carry marks of the rule.
 */
export class RemovalBreakers {
  readonly #tally: Tally<Phase>;
  /** By rule, the nodes that have lost a mark, with the time: monotonic ms, oldest first. */
  readonly #lost = new Map<string, Map<string, number>>();
  readonly #frozen = new Set<string>();
  readonly #onChange: (rule: string, frozen: boolean) => void;

  /** @param onChange called when the removals of a rule freeze, and when they continue. */
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

  /** Sets the rules of which the node carries a mark, and of which it would lose one. */
  put(node: string, stakes: readonly Stake<Phase>[]): void {
    this.#tally.put(node, stakes);
  }

  /** Records that the node has lost a mark of the rule. */
  lost(node: string, rule: string, nowMs: number): void {
    const lost = this.#lost.get(rule) ?? new Map<string, number>();
    lost.delete(node);
    this.#lost.set(rule, lost.set(node, nowMs));
  }

  /** True when removals of the rule must wait for a confirmation. */
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

  /** For `BREAKER_WINDOW_MS`, a node that has lost its mark still counts as losing and as carrying. */
  #count(rule: string, phase: Phase): number {
    const nodes = this.#tally.of(rule, phase);
    let count = nodes.size;
    for (const node of this.#lost.get(rule)?.keys() ?? []) if (!nodes.has(node)) count += 1;
    return count;
  }
}
