/** Counts nodes and claims by footprint: for the status, the agent checks and the metrics. */
import { type Stake, Tally, type TallyOptions } from "@berth/host";
import { parseMarkId } from "../node/mark.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import type { FootprintPhase } from "./capability.ts";
import { FOOTPRINT } from "./footprint.ts";

const nothingCounted = { labelled: 0, needed: 0, pending: 0, unknown: 0, claims: 0, foreign: 0 };

/**
 * Counts of one footprint over all nodes. `labelled`: nodes with the label, even if Berth is about to remove it.
 * `needed`: nodes that need the agent, with or without the label. `pending`: those of them without the label.
 * `unknown`: nodes whose need is not known. `claims`: claims that pods need. `foreign`: nodes with reported marks that
 * no pod needs and Berth did not set.
 */
export type FootprintCounts = Readonly<Record<keyof typeof nothingCounted, number>>;

type Counted = FootprintPhase | "Labelled" | "Claimed";

/** Remembers nodes that need an agent, carry a label or are not known: no others. */
export class FootprintTally implements NodeObserver {
  readonly #tally: Tally<Counted>;
  readonly #monotonic: () => number;
  /** All rules that were ever counted. */
  readonly #rules = new Set<string>();

  /** @param onChange the counts of a footprint have changed. Called often and at once: collect the calls. */
  constructor({ onChange, monotonic }: TallyOptions & { readonly monotonic: () => number }) {
    this.#tally = new Tally({ onChange });
    this.#monotonic = monotonic;
  }

  counts(rule: string): FootprintCounts {
    const [labelled, needed, pending, unknown, foreign] = (
      ["Labelled", "Needed", "Pending", "Unknown", "Foreign"] as const
    ).map((phase) => this.#tally.of(rule, phase).size) as [number, number, number, number, number];
    const claims = this.#details(rule, "Claimed").reduce((sum, it) => sum + it.claims, 0);
    return { labelled, needed: needed + pending, pending, unknown, claims, foreign };
  }

  /** For how long some node has been unknown, ms; 0 when none is. */
  unknownMs(rule: string): number {
    const now = this.#monotonic();
    return now - this.#details(rule, "Unknown").reduce((first, { since }) => Math.min(first, since), now);
  }

  /** Names of the nodes in this phase, in no order. */
  nodes(rule: string, phase: FootprintPhase): readonly string[] {
    return [...this.#tally.of(rule, phase)];
  }

  /** Over all footprints: nodes are counted for each of them. */
  get total(): FootprintCounts {
    const total = { ...nothingCounted };
    for (const rule of this.#rules)
      for (const [key, count] of Object.entries(this.counts(rule)))
        total[key as keyof FootprintCounts] += count;
    return total;
  }

  decided(name: string, { contributions }: Pick<NodeOutcome, "contributions">): void {
    const { outcomes = [], marks = [] } =
      contributions.find(({ capability }) => capability === FOOTPRINT)?.decision ?? {};
    const stakes = outcomes.flatMap(({ rule, phase, place }): readonly Stake<Counted>[] => {
      if (phase === "Foreign") return [];
      const isForeign = outcomes.some((it) => it.rule === rule && it.phase === "Foreign");
      if (phase === "Idle" && place === undefined && !isForeign) return [];
      const claims = marks.filter(
        (it) => it.rule === rule && parseMarkId(it.id)?.kind === "annotation",
      ).length;
      const before = this.#tally.stake(name, rule);
      const since = before?.phases.includes("Unknown") ? detailOf(before).since : this.#monotonic();
      const phases: readonly Counted[] = [
        phase as FootprintPhase,
        ...(place === undefined ? [] : (["Labelled"] as const)),
        ...(isForeign ? (["Foreign"] as const) : []),
        ...(claims > 0 ? (["Claimed"] as const) : []),
      ];
      this.#rules.add(rule);
      return [{ rule, phases, detail: `${claims} ${phase === "Unknown" ? since : ""}` }];
    });
    this.#tally.put(name, stakes);
  }

  gone(name: string): void {
    this.#tally.put(name, []);
  }

  #details(rule: string, phase: Counted): readonly ReturnType<typeof detailOf>[] {
    return Array.from(this.#tally.of(rule, phase), (name) => detailOf(this.#tally.stake(name, rule)));
  }
}

/** How many claims pods need, and since when the node has been unknown, monotonic ms. */
function detailOf({ detail = "" }: Partial<Stake<Counted>> = {}): {
  readonly claims: number;
  readonly since: number;
} {
  const [claims, since] = detail.split(" ");
  return { claims: Number(claims), since: Number(since) };
}
