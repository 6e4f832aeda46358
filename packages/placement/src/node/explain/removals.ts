import { removalLimit } from "../breaker.ts";
import type { Policy } from "../capability.ts";
import type { Change } from "../change.ts";
import type { NodePlan } from "../plan.ts";
import { policyOf } from "../removals.ts";

/** The effect of a plan over many nodes, for one rule with a removal policy. */
export interface RuleForecast {
  readonly rule: string;
  /** Nodes on which the plan sets, replaces or removes a mark of the rule. */
  readonly touched: number;
  /** Nodes that would lose a mark because inputs disappeared; `carrying` is the number of nodes with a mark. */
  readonly losing: number;
  readonly carrying: number;
  /** How long these removals wait, ms. */
  readonly delayMs: number;
  /** Too many nodes would lose a mark at once, so Berth would make no removal. */
  readonly frozen: boolean;
}

type Counts = Record<"touched" | "losing" | "carrying", number>;

/** Adds up the effects of node plans on rules with a removal policy. */
export class RemovalForecast {
  readonly #counts = new Map<string, Counts>();
  #policies: ReadonlyMap<string, Policy> = new Map();

  add({ changes, base }: NodePlan, policies: ReadonlyMap<string, Policy>): void {
    this.#policies = policies;
    this.#count(
      "touched",
      changes.filter(({ action }) => action !== "adopt" && action !== "record"),
    );
    this.#count(
      "losing",
      changes.filter((change) => policyOf(change, policies) !== undefined),
    );
    this.#count("carrying", base?.marks.values() ?? []);
  }

  /** In order of rule, without rules that concern no node. */
  rules(): readonly RuleForecast[] {
    return Array.from(this.#counts, ([rule, { touched, losing, carrying }]) => {
      const policies = this.#policies.values().map(({ removals }) => removals?.get(rule));
      const { delayMs = 0, breaker } = policies.find((it) => it !== undefined) ?? {};
      const frozen = breaker !== undefined && losing > removalLimit(breaker, carrying);
      return { rule, touched, losing, carrying, delayMs, frozen };
    }).sort((a, b) => (a.rule < b.rule ? -1 : 1));
  }

  #count(what: keyof Counts, marks: Iterable<Pick<Change, "capability" | "rule">>): void {
    const rules = new Set<string>();
    for (const { capability, rule } of marks)
      if (this.#policies.get(capability)?.removals?.has(rule) === true) rules.add(rule);
    for (const rule of rules) {
      const counts = this.#counts.get(rule) ?? { touched: 0, losing: 0, carrying: 0 };
      counts[what] += 1;
      this.#counts.set(rule, counts);
    }
  }
}
