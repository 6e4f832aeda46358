/** Counts nodes and claims by footprint: for the status, the agent checks and the metrics. */

import { parseMarkId } from "../node/mark.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import type { FootprintPhase } from "./capability.ts";
import { FOOTPRINT } from "./footprint.ts";

/** What is known about one footprint, over all nodes. */
export interface FootprintCounts {
  /** Nodes with the label, be it that it is about to go. */
  readonly labelled: number;
  /** Nodes that need the agent, with the label or without. */
  readonly needed: number;
  /** Of these without the label yet. */
  readonly pending: number;
  /** Nodes of which it is not known. */
  readonly unknown: number;
  /** Claims that are wanted, over all nodes. */
  readonly claims: number;
  /** Nodes with marks that nobody needs and that are not ours, where these are reported. */
  readonly foreign: number;
}

/** `since` when it has not been known, ms of the clock. */
interface NodeCount {
  readonly since?: number;
  readonly phase: FootprintPhase;
  readonly isLabelled: boolean;
  readonly isForeign: boolean;
  readonly claims: number;
}

/** By rule. */
type NodeCounts = ReadonlyMap<string, NodeCount>;

export interface FootprintTallyOptions {
  /** The counts of a footprint have changed. Called often and at once: collect the calls. */
  readonly onChange: (rule: string) => void;
  /** Ms that only grow. */
  readonly monotonic: () => number;
}

/** Remembers nodes that need an agent, carry a label or are not known: no others. */
export class FootprintTally implements NodeObserver {
  readonly #options: FootprintTallyOptions;
  readonly #nodes = new Map<string, NodeCounts>();
  readonly #rules = new Map<string, Map<string, NodeCount>>();

  constructor(options: FootprintTallyOptions) {
    this.#options = options;
  }

  counts(rule: string): FootprintCounts {
    const counts = { labelled: 0, needed: 0, pending: 0, unknown: 0, claims: 0, foreign: 0 };
    for (const { phase, isLabelled, isForeign, claims } of this.#rules.get(rule)?.values() ?? []) {
      counts.claims += claims;
      if (isLabelled) counts.labelled++;
      if (isForeign) counts.foreign++;
      if (phase === "Needed" || phase === "Pending") counts.needed++;
      if (phase === "Pending") counts.pending++;
      if (phase === "Unknown") counts.unknown++;
    }
    return counts;
  }

  /** For how long there has been a node of which it is not known, ms; 0 when there is none. */
  unknownMs(rule: string): number {
    const now = this.#options.monotonic();
    let longest = 0;
    for (const { since = now } of this.#rules.get(rule)?.values() ?? [])
      longest = Math.max(longest, now - since);
    return longest;
  }

  /** Names of the nodes in this phase, in no order. */
  nodes(rule: string, phase: FootprintPhase): readonly string[] {
    const nodes = this.#rules.get(rule) ?? new Map<string, NodeCount>();
    return [...nodes].filter(([, count]) => count.phase === phase).map(([name]) => name);
  }

  /** Over all footprints: nodes are counted for each of them. */
  get total(): FootprintCounts {
    const total = { labelled: 0, needed: 0, pending: 0, unknown: 0, claims: 0, foreign: 0 };
    for (const rule of this.#rules.keys()) {
      const counts = this.counts(rule);
      for (const key of Object.keys(total) as (keyof FootprintCounts)[]) total[key] += counts[key];
    }
    return total;
  }

  decided(name: string, { contributions }: Pick<NodeOutcome, "contributions">): void {
    const ours = contributions.find(({ capability }) => capability === FOOTPRINT);
    this.#replace(name, ours === undefined ? noCounts : countsOf(ours));
  }

  gone(name: string): void {
    this.#replace(name, noCounts);
  }

  #replace(name: string, counts: NodeCounts): void {
    const last = this.#nodes.get(name) ?? noCounts;
    const now = this.#options.monotonic();
    const next = new Map(
      Iterator.from(counts).map(([rule, count]) => [rule, timed(count, last.get(rule), now)]),
    );
    if (next.size === 0) this.#nodes.delete(name);
    else this.#nodes.set(name, next);
    for (const rule of new Set([...last.keys(), ...next.keys()])) {
      const [before, after] = [last.get(rule), next.get(rule)];
      if (isSame(before, after)) continue;
      this.#put(rule, name, after);
      this.#options.onChange(rule);
    }
  }

  #put(rule: string, name: string, count: NodeCount | undefined): void {
    const nodes = this.#rules.get(rule) ?? new Map<string, NodeCount>();
    if (count === undefined) nodes.delete(name);
    else nodes.set(name, count);
    if (nodes.size === 0) this.#rules.delete(rule);
    else this.#rules.set(rule, nodes);
  }
}

const noCounts: NodeCounts = new Map();

function timed(count: NodeCount, last: NodeCount | undefined, now: number): NodeCount {
  return count.phase === "Unknown" ? { ...count, since: last?.since ?? now } : count;
}

function countsOf({ decision }: NodeOutcome["contributions"][number]): NodeCounts {
  const { outcomes = [], marks } = decision;
  const counts = new Map<string, NodeCount>();
  for (const { rule, phase, place } of outcomes) {
    if (phase === "Foreign") continue;
    const isForeign = outcomes.some((it) => it.rule === rule && it.phase === "Foreign");
    if (phase === "Idle" && place === undefined && !isForeign) continue;
    const claims = marks.filter((it) => it.rule === rule && parseMarkId(it.id)?.kind === "annotation").length;
    const isLabelled = place !== undefined;
    counts.set(rule, { phase: phase as FootprintPhase, isLabelled, isForeign, claims });
  }
  return counts;
}

function isSame(a: NodeCount | undefined, b: NodeCount | undefined): boolean {
  return (
    a?.phase === b?.phase &&
    a?.isLabelled === b?.isLabelled &&
    a?.isForeign === b?.isForeign &&
    a?.claims === b?.claims
  );
}
