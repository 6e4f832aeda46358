import { removalLimit } from "../breaker.ts";
import type { Policy } from "../capability.ts";
import type { NodePlan } from "../plan.ts";
import { policyOf } from "../removals.ts";

/** What a plan over many nodes means for one rule that is careful with removals, or asks before it acts. */
export interface RuleForecast {
  readonly rule: string;
  /** Nodes on which the plan sets, replaces or removes a mark of the rule. */
  readonly touched: number;
  /** Nodes that would lose a mark of the rule because its inputs vanished, of so many that carry one. */
  readonly losing: number;
  readonly carrying: number;
  /** How long those removals wait, ms. */
  readonly delayMs: number;
  /** Too many at once: none would be made. */
  readonly frozen: boolean;
}

/** Counts what one plan after the other does to such rules. */
export class RemovalForecast {
  readonly #counts = new Map<string, { touched: number; losing: number; carrying: number }>();
  #policies: ReadonlyMap<string, Policy> = new Map();

  add(plan: NodePlan, policies: ReadonlyMap<string, Policy>): void {
    this.#policies = policies;
    const careful = (capability: string, rule: string): boolean =>
      policies.get(capability)?.removals?.has(rule) === true;
    const touched = new Set<string>();
    const losing = new Set<string>();
    const carrying = new Set<string>();
    for (const change of plan.changes) {
      if (!careful(change.capability, change.rule)) continue;
      if (["add", "overwrite", "remove"].includes(change.action)) touched.add(change.rule);
      if (policyOf(change, policies) !== undefined) losing.add(change.rule);
    }
    for (const { capability, rule } of plan.base?.marks.values() ?? []) {
      if (careful(capability, rule)) carrying.add(rule);
    }
    for (const rule of touched) this.#of(rule).touched += 1;
    for (const rule of losing) this.#of(rule).losing += 1;
    for (const rule of carrying) this.#of(rule).carrying += 1;
  }

  /** In order of rule; those that no node has to do with are left out. */
  rules(): readonly RuleForecast[] {
    const forecasts: RuleForecast[] = [];
    for (const [rule, { touched, losing, carrying }] of this.#counts) {
      const policy = [...this.#policies.values()]
        .map((it) => it.removals?.get(rule))
        .find((it) => it !== undefined);
      const { delayMs = 0, breaker } = policy ?? {};
      const frozen = breaker !== undefined && losing > removalLimit(breaker, carrying);
      forecasts.push({ rule, touched, losing, carrying, delayMs, frozen });
    }
    return forecasts.sort((a, b) => (a.rule < b.rule ? -1 : 1));
  }

  #of(rule: string): { touched: number; losing: number; carrying: number } {
    let counts = this.#counts.get(rule);
    if (counts === undefined) this.#counts.set(rule, (counts = { touched: 0, losing: 0, carrying: 0 }));
    return counts;
  }
}
