import type { Instant } from "../node/capability.ts";
import type { Change } from "../node/change.ts";
import { firstOf, MAX_FIRST_NODES } from "../node/first-names.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import type { GatePhase } from "./decide.ts";
import { GATES, type Gate } from "./gate.ts";
import { parseState } from "./state.ts";

/** What is known about one gate, over all nodes. */
export interface GateCounts {
  readonly selected: number;
  /** Held now, again or for the first time. */
  readonly held: number;
  readonly heldAgain: number;
  readonly timedOut: number;
  /** Names of held nodes, in a dry run of those that would be; sorted, at most `MAX_FIRST_NODES`. */
  readonly firstHeld: readonly string[];
  /** Only of a gate in dry run. */
  readonly wouldHold: number;
  readonly wouldRelease: number;
}

/** A node that a gate has let go. */
export interface GateRelease {
  readonly rule: string;
  readonly reason: string;
  /** How long it was held as far as the node told; absent when it did not. */
  readonly heldForMs?: number;
}

export interface GateTallyOptions {
  /** The counts of a gate have changed. Called often and at once: collect them. */
  readonly onChange: (rule: string) => void;
  readonly onRelease?: (release: GateRelease) => void;
  /** The time now, for how long a node was held. */
  readonly now: () => Instant;
}

interface Sets {
  readonly selected: Set<string>;
  readonly held: Set<string>;
  readonly heldAgain: Set<string>;
  readonly timedOut: Set<string>;
  readonly wouldHold: Set<string>;
  readonly wouldRelease: Set<string>;
}

type Phases = ReadonlyMap<string, GatePhase>;

/** Counts nodes by gate, and says how many more may be held again. */
export class GateTally implements NodeObserver {
  readonly #options: GateTallyOptions;
  readonly #rules = new Map<string, Sets>();
  readonly #nodes = new Map<string, Phases>();

  constructor(options: GateTallyOptions) {
    this.#options = options;
  }

  counts(rule: string): GateCounts {
    const { selected, held, heldAgain, timedOut, wouldHold, wouldRelease } =
      this.#rules.get(rule) ?? noSets();
    return {
      selected: selected.size,
      held: held.size,
      heldAgain: heldAgain.size,
      timedOut: timedOut.size,
      firstHeld: firstOf(wouldHold.size > 0 ? wouldHold : held, MAX_FIRST_NODES),
      wouldHold: wouldHold.size,
      wouldRelease: wouldRelease.size,
    };
  }

  /** Nodes held by any gate. */
  get held(): number {
    return unionSize([...this.#rules.values()].map(({ held }) => held));
  }

  /** Nodes held by any gate for longer than a timeout of it. */
  get timedOut(): number {
    return unionSize([...this.#rules.values()].map(({ timedOut }) => timedOut));
  }

  /**
   * May this node be held again? What is held again already may stay so.
   *
   * @param standing names of the nodes that say they are held again: what was decided may not be there yet, and what is
   *   there, by a process before, not be decided yet.
   */
  mayHoldAgain(
    { rule, spec: { heldAgain: limit } }: Gate,
    node: string,
    standing: Iterable<string>,
  ): boolean {
    const { selected, heldAgain } = this.#rules.get(rule) ?? noSets();
    if (heldAgain.has(node) || limit.percent === 100) return true;
    const most = Math.max(limit.nodes, Math.floor((selected.size * limit.percent) / 100));
    let free = most - heldAgain.size;
    for (const name of standing) {
      if (name === node) return true;
      if (!heldAgain.has(name)) free -= 1;
    }
    return free > 0;
  }

  decided(name: string, { contributions, changes }: NodeOutcome): void {
    const outcomes = contributions.find(({ capability }) => capability === GATES)?.decision.outcomes ?? [];
    const before = this.#nodes.get(name);
    const phases = new Map(
      outcomes.flatMap(({ rule, phase }) =>
        phase === undefined || phase === "NotSelected" ? [] : [[rule, phase as GatePhase] as const],
      ),
    );
    // A node that is to be let go still is held: only then may another one take its place.
    for (const { rule, capability, action } of changes) {
      const phase = before?.get(rule);
      if (capability === GATES && action === "remove" && isAgain(phase)) phases.set(rule, phase);
    }
    if (phases.size === 0 && before === undefined) return;
    if (phases.size === 0) this.#nodes.delete(name);
    else this.#nodes.set(name, phases);
    for (const [rule, phase] of phases) if (before?.get(rule) !== phase) this.#put(rule, name, phase);
    for (const rule of before?.keys() ?? []) if (!phases.has(rule)) this.#put(rule, name, undefined);
  }

  written(_name: string, changes: readonly Change[]): void {
    for (const { id, capability, rule, before, after } of changes) {
      if (capability !== GATES || !id.startsWith("annotation/gate.berth.dev/")) continue;
      const next = parseState(after);
      const last = parseState(before);
      // What was only recorded anew, or let go before, is no release.
      if (next?.state !== "released" || last?.state === "released") continue;
      const heldForMs = last?.state === "held" ? Math.max(0, this.#options.now() - last.at) : undefined;
      const { why: reason } = next;
      this.#options.onRelease?.({ rule, reason, ...(heldForMs !== undefined && { heldForMs }) });
    }
  }

  gone(name: string): void {
    for (const rule of this.#nodes.get(name)?.keys() ?? []) this.#put(rule, name, undefined);
    this.#nodes.delete(name);
  }

  #put(rule: string, name: string, phase: GatePhase | undefined): void {
    let sets = this.#rules.get(rule);
    if (sets === undefined) {
      sets = noSets();
      this.#rules.set(rule, sets);
    }
    put(sets.selected, name, phase !== undefined);
    put(sets.held, name, phase !== undefined && phase !== "Open" && phase !== "WouldHold");
    put(sets.heldAgain, name, isAgain(phase));
    put(sets.timedOut, name, phase === "TimedOut" || phase === "TimedOutAgain");
    put(sets.wouldHold, name, phase === "WouldHold");
    put(sets.wouldRelease, name, phase === "WouldRelease");
    if (sets.selected.size === 0) this.#rules.delete(rule);
    this.#options.onChange(rule);
  }
}

function isAgain(phase: GatePhase | undefined): phase is "HeldAgain" | "TimedOutAgain" {
  return phase === "HeldAgain" || phase === "TimedOutAgain";
}

function noSets(): Sets {
  return {
    selected: new Set(),
    held: new Set(),
    heldAgain: new Set(),
    timedOut: new Set(),
    wouldHold: new Set(),
    wouldRelease: new Set(),
  };
}

function unionSize(sets: readonly ReadonlySet<string>[]): number {
  return sets.reduce<ReadonlySet<string>>((all, set) => all.union(set), new Set()).size;
}

function put(set: Set<string>, name: string, inside: boolean): void {
  if (inside) set.add(name);
  else set.delete(name);
}
