/** Counts nodes and claims by footprint: for the status, the agent checks and the metrics. */
import { isSameData } from "@berth/runtime";
import { parseMarkId } from "../node/mark.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import type { FootprintPhase } from "./capability.ts";
import { FOOTPRINT } from "./footprint.ts";

const nothingCounted = { labelled: 0, needed: 0, pending: 0, unknown: 0, claims: 0, foreign: 0 };

/**
 * What is known about one footprint, over all nodes. `labelled`: nodes with the label, be it that it is about to go. `needed`:
 * nodes that need the agent, with the label or without. `pending`: of these without the label yet. `unknown`: nodes of which
 * it is not known. `claims`: that are wanted. `foreign`: nodes with marks that nobody needs and that are not ours, where these
 * are reported.
 */
export type FootprintCounts = Readonly<Record<keyof typeof nothingCounted, number>>;

interface NodeCount {
  readonly phase: FootprintPhase;
  readonly counts: FootprintCounts;
}

export interface FootprintTallyOptions {
  /** The counts of a footprint have changed. Called often and at once: collect the calls. */
  readonly onChange: (rule: string) => void;
  /** Ms that only grow. */
  readonly monotonic: () => number;
}

/** Remembers nodes that need an agent, carry a label or are not known: no others. */
export class FootprintTally implements NodeObserver {
  readonly #options: FootprintTallyOptions;
  /** By rule and node, `since` when it has not been known. */
  readonly #rules = new Map<string, Map<string, NodeCount & { readonly since: number }>>();

  constructor(options: FootprintTallyOptions) {
    this.#options = options;
  }

  counts(rule: string): FootprintCounts {
    return sum(this.#rules.get(rule)?.values() ?? []);
  }

  /** For how long there has been a node of which it is not known, ms; 0 when there is none. */
  unknownMs(rule: string): number {
    const now = this.#options.monotonic();
    let longest = 0;
    for (const { phase, since } of this.#rules.get(rule)?.values() ?? [])
      if (phase === "Unknown") longest = Math.max(longest, now - since);
    return longest;
  }

  /** Names of the nodes in this phase, in no order. */
  nodes(rule: string, phase: FootprintPhase): readonly string[] {
    return [...(this.#rules.get(rule) ?? [])].flatMap(([name, count]) => (count.phase === phase ? name : []));
  }

  /** Over all footprints: nodes are counted for each of them. */
  get total(): FootprintCounts {
    return sum(this.#rules.values().flatMap((nodes) => nodes.values()));
  }

  decided(name: string, { contributions }: Pick<NodeOutcome, "contributions">): void {
    const ours = contributions.find(({ capability }) => capability === FOOTPRINT);
    this.#replace(name, ours === undefined ? new Map() : countsOf(ours));
  }

  gone(name: string): void {
    this.#replace(name, new Map());
  }

  #replace(name: string, counts: ReadonlyMap<string, NodeCount>): void {
    for (const rule of new Set([...this.#rules.keys(), ...counts.keys()])) {
      const nodes = this.#rules.get(rule) ?? new Map<string, NodeCount & { readonly since: number }>();
      const before = nodes.get(name);
      const after = counts.get(rule);
      if (before?.phase === after?.phase && isSameData(before?.counts, after?.counts)) continue;
      const wasUnknown = before?.phase === "Unknown" && after?.phase === "Unknown";
      if (after === undefined) nodes.delete(name);
      else nodes.set(name, { ...after, since: wasUnknown ? before.since : this.#options.monotonic() });
      if (nodes.size === 0) this.#rules.delete(rule);
      else this.#rules.set(rule, nodes);
      this.#options.onChange(rule);
    }
  }
}

function sum(all: Iterable<NodeCount>): FootprintCounts {
  const total = { ...nothingCounted };
  for (const { counts } of all)
    for (const key of Object.keys(total) as (keyof FootprintCounts)[]) total[key] += counts[key];
  return total;
}

function countsOf({ decision }: NodeOutcome["contributions"][number]): ReadonlyMap<string, NodeCount> {
  const { outcomes = [], marks } = decision;
  const counts = new Map<string, NodeCount>();
  for (const { rule, phase, place } of outcomes) {
    if (phase === "Foreign") continue;
    const isForeign = outcomes.some((it) => it.rule === rule && it.phase === "Foreign");
    if (phase === "Idle" && place === undefined && !isForeign) continue;
    const isClaim = (id: string): boolean => parseMarkId(id)?.kind === "annotation";
    counts.set(rule, {
      phase: phase as FootprintPhase,
      counts: {
        labelled: place === undefined ? 0 : 1,
        needed: phase === "Needed" || phase === "Pending" ? 1 : 0,
        pending: phase === "Pending" ? 1 : 0,
        unknown: phase === "Unknown" ? 1 : 0,
        claims: marks.filter((it) => it.rule === rule && isClaim(it.id)).length,
        foreign: isForeign ? 1 : 0,
      },
    });
  }
  return counts;
}
