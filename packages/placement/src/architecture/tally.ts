/** Counts what was decided about pods, DaemonSets and nodes: for the bootstrap, the status and the metrics. */

import { firstOf } from "../node/first-names.ts";
import type { MarkId } from "../node/mark.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import type { Uncovered } from "./bootstrap.ts";
import type { ArchitecturePhase } from "./capability.ts";
import type { WorkloadObserver, WorkloadOutcome } from "./pod-view.ts";
import { ARCHITECTURE } from "./policy.ts";
import { MAX_FIRST_UNCOVERED } from "./resource.ts";

/** Pods of one policy that are not where their images run. */
export interface PodCounts {
  /** Held or not tolerated because their images are not known. */
  readonly waiting: number;
  readonly impossible: number;
}

/** What has changed: counts of a policy, or what is uncovered for a key. */
export type TallyChange = { readonly rule: string } | { readonly key: string };

const noneUncovered: Uncovered = Object.freeze({ pods: 0, daemonSets: 0, first: [] });
const noPods: PodCounts = Object.freeze({ waiting: 0, impossible: 0 });
const POD = "Pod ";

/**
 * What is open about pods and DaemonSets. Remembers only those that are uncovered, or of which a count is kept: as many
 * as there are unscheduled pods and DaemonSets at most, and none once all is settled.
 */
export class ArchitectureTally implements WorkloadObserver {
  readonly #onChange: (change: TallyChange) => void;
  readonly #open = new Map<string, WorkloadOutcome>();
  readonly #uncovered = new Map<string, Set<string>>();
  /** Asked for each node, and made once for each change. */
  readonly #summaries = new Map<string, Uncovered>();
  readonly #pods = new Map<string, PodCounts>();

  /** @param onChange called often and at once: collect the calls. */
  constructor(onChange: (change: TallyChange) => void) {
    this.#onChange = onChange;
  }

  /** Workloads that nodes must not be tainted with this key for. */
  uncovered(key: string): Uncovered {
    const names = this.#uncovered.get(key);
    if (names === undefined) return noneUncovered;
    const summary = this.#summaries.get(key) ?? summaryOf(names);
    this.#summaries.set(key, summary);
    return summary;
  }

  pods(rule: string): PodCounts {
    return this.#pods.get(rule) ?? noPods;
  }

  /** Over all policies. */
  get total(): PodCounts & { readonly uncovered: number } {
    const all = [...this.#pods.values()];
    return {
      waiting: all.reduce((sum, { waiting }) => sum + waiting, 0),
      impossible: all.reduce((sum, { impossible }) => sum + impossible, 0),
      uncovered: [...this.#open.values()].filter(({ uncovered }) => uncovered.length > 0).length,
    };
  }

  decided(workload: string, outcome: WorkloadOutcome): void {
    const isOpen = outcome.uncovered.length > 0 || countedAs(workload, outcome) !== undefined;
    this.#replace(workload, isOpen ? outcome : undefined);
  }

  gone(workload: string): void {
    this.#replace(workload, undefined);
  }

  #replace(workload: string, next: WorkloadOutcome | undefined): void {
    const last = this.#open.get(workload);
    if (next === undefined) this.#open.delete(workload);
    else this.#open.set(workload, next);
    const [before, after] = [new Set(last?.uncovered), new Set(next?.uncovered)];
    for (const key of before.difference(after)) this.#cover(key, workload, true);
    for (const key of after.difference(before)) this.#cover(key, workload, false);
    const [from, to] = [last && countedAs(workload, last), next && countedAs(workload, next)];
    if (from === to && last?.rule === next?.rule) return;
    if (from !== undefined) this.#count(last?.rule, from, -1);
    if (to !== undefined) this.#count(next?.rule, to, 1);
  }

  #cover(key: string, workload: string, covered: boolean): void {
    const names = this.#uncovered.get(key) ?? new Set();
    if (covered) names.delete(workload);
    else names.add(workload);
    if (names.size === 0) this.#uncovered.delete(key);
    else this.#uncovered.set(key, names);
    this.#summaries.delete(key);
    this.#onChange({ key });
  }

  #count(rule: string | undefined, as: keyof PodCounts, by: 1 | -1): void {
    if (rule === undefined) return;
    const counts = this.pods(rule);
    const next = { ...counts, [as]: counts[as] + by };
    if (next.waiting + next.impossible === 0) this.#pods.delete(rule);
    else this.#pods.set(rule, next);
    this.#onChange({ rule });
  }
}

/** DaemonSets are counted by their pods. What nobody governs neither waits nor is impossible. */
function countedAs(workload: string, { rule, phase }: WorkloadOutcome): keyof PodCounts | undefined {
  if (rule === undefined || phase === "settled" || !workload.startsWith(POD)) return undefined;
  return phase === "impossible" ? "impossible" : "waiting";
}

function summaryOf(names: ReadonlySet<string>): Uncovered {
  let pods = 0;
  for (const name of names) if (name.startsWith(POD)) pods += 1;
  return { pods, daemonSets: names.size - pods, first: firstOf(names, MAX_FIRST_UNCOVERED) };
}

/** Nodes of one policy. */
export interface TaintCounts {
  /** Nodes that carry its taint, whoever has put it on. */
  readonly tainted: number;
}

/** How a node carries the taint of one policy. */
interface Standing {
  readonly phase: ArchitecturePhase;
  readonly place: MarkId | undefined;
}

type Standings = ReadonlyMap<string, Standing>;

/** Counts tainted nodes by policy. Remembers nodes that carry a taint. */
export class ArchitectureNodeTally implements NodeObserver {
  readonly #onChange: (rule: string) => void;
  readonly #nodes = new Map<string, Standings>();
  readonly #tainted = new Map<string, number>();
  /** By rule and place. */
  readonly #standing = new Map<string, number>();

  /** @param onChange called often and at once: collect the calls. */
  constructor(onChange: (rule: string) => void) {
    this.#onChange = onChange;
  }

  counts(rule: string): TaintCounts {
    return { tainted: this.#tainted.get(rule) ?? 0 };
  }

  /** Does a node carry the taint at this place as ours, or as it should be at the original key? A bootstrap is over by that. */
  isStanding(rule: string, place: MarkId): boolean {
    return this.#standing.has(placeKey(rule, place));
  }

  /** Nodes that carry the taint of any policy. */
  get tainted(): number {
    return this.#nodes.size;
  }

  decided(name: string, { contributions }: Pick<NodeOutcome, "contributions">): void {
    const ours = contributions.find(({ capability }) => capability === ARCHITECTURE);
    const standings = new Map(
      (ours?.decision.outcomes ?? []).flatMap(({ rule, phase, place }) =>
        phase === undefined || phase === "Untainted"
          ? []
          : [[rule, { phase: phase as ArchitecturePhase, place }] as const],
      ),
    );
    this.#replace(name, standings);
  }

  gone(name: string): void {
    this.#replace(name, new Map());
  }

  #replace(name: string, next: Standings): void {
    const last: Standings = this.#nodes.get(name) ?? new Map();
    if (next.size === 0) this.#nodes.delete(name);
    else this.#nodes.set(name, next);
    for (const rule of new Set([...last.keys(), ...next.keys()])) {
      const [before, after] = [last.get(rule), next.get(rule)];
      if (before?.phase === after?.phase && before?.place === after?.place) continue;
      if (before !== undefined) this.#count(rule, before, -1);
      if (after !== undefined) this.#count(rule, after, 1);
      this.#onChange(rule);
    }
  }

  #count(rule: string, { phase, place }: Standing, by: 1 | -1): void {
    add(this.#tainted, rule, by);
    if (phase === "Tainted" && place !== undefined) add(this.#standing, placeKey(rule, place), by);
  }
}

function placeKey(rule: string, place: MarkId): string {
  return `${rule} ${place}`;
}

function add(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
