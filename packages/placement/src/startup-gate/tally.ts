import { type Stake, Tally } from "@berth/host";
import type { Instant } from "../node/capability.ts";
import type { Change } from "../node/change.ts";
import { firstOf, MAX_FIRST_NODES } from "../node/first-names.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import type { GatePhase } from "./decide.ts";
import { GATES, type Gate } from "./gate.ts";
import { parseState } from "./state.ts";

/** `held`: now, again or for the first time. `wouldHold` and `wouldRelease`: only of a gate in dry run. */
type Count = "selected" | "held" | "heldAgain" | "timedOut" | "wouldHold" | "wouldRelease";

/** Counts of one gate over all nodes. */
export interface GateCounts extends Readonly<Record<Count, number>> {
  /** Names of held nodes, or in a dry run of nodes that would be held; sorted, at most `MAX_FIRST_NODES`. */
  readonly firstHeld: readonly string[];
}

export interface GateRelease {
  readonly rule: string;
  readonly reason: string;
  /** Length of the hold, ms, by the state on the node; absent if the node had no such state. */
  readonly heldForMs?: number;
}

export interface GateTallyOptions {
  /** As in `Tally`. */
  readonly onChange: (rule: string) => void;
  readonly onRelease?: (release: GateRelease) => void;
  /** The present time, for the length of a hold. */
  readonly now: () => Instant;
}

/** How a node in each phase is counted. */
const COUNTED: Readonly<Partial<Record<GatePhase, readonly Count[]>>> = {
  Open: ["selected"],
  WouldHold: ["selected", "wouldHold"],
  WouldRelease: ["selected", "held", "wouldRelease"],
  HeldAgain: ["selected", "held", "heldAgain"],
  TimedOut: ["selected", "held", "timedOut"],
  TimedOutAgain: ["selected", "held", "heldAgain", "timedOut"],
};
const HELD: readonly Count[] = ["selected", "held"];

export class GateTally implements NodeObserver {
  readonly #options: GateTallyOptions;
  readonly #tally: Tally<Count>;

  constructor(options: GateTallyOptions) {
    this.#options = options;
    this.#tally = new Tally(options);
  }

  counts(rule: string): GateCounts {
    const of = (count: Count): ReadonlySet<string> => this.#tally.of(rule, count);
    const would = of("wouldHold");
    return {
      selected: of("selected").size,
      held: of("held").size,
      heldAgain: of("heldAgain").size,
      timedOut: of("timedOut").size,
      firstHeld: firstOf(would.size > 0 ? would : of("held"), MAX_FIRST_NODES),
      wouldHold: would.size,
      wouldRelease: of("wouldRelease").size,
    };
  }

  /** Nodes held by any gate. */
  get held(): ReadonlySet<string> {
    return this.#tally.all("held");
  }

  /** Nodes held by any gate for longer than a timeout of it. */
  get timedOut(): number {
    return this.#tally.total("timedOut");
  }

  /**
   * A node that is already held again may stay so. @param standing names of nodes whose annotations say so. A decision
   * may not be written yet, and a state of an earlier process may not be decided yet.
   */
  mayHoldAgain(
    { rule, spec: { heldAgain: limit } }: Gate,
    node: string,
    standing: Iterable<string>,
  ): boolean {
    const heldAgain = this.#tally.of(rule, "heldAgain");
    const selected = this.#tally.of(rule, "selected");
    const all = heldAgain.union(new Set(standing));
    if (all.has(node) || limit.percent === 100) return true;
    return all.size < Math.max(limit.nodes, Math.floor((selected.size * limit.percent) / 100));
  }

  decided(name: string, { contributions, changes }: NodeOutcome): void {
    const outcomes = contributions.find(({ capability }) => capability === GATES)?.decision.outcomes ?? [];
    const stakes = new Map<string, Stake<Count>>();
    for (const { rule, phase } of outcomes) {
      if (phase === undefined || phase === "NotSelected") continue;
      stakes.set(rule, { rule, phases: COUNTED[phase as GatePhase] ?? HELD });
    }
    // A node counts as held again until its release is written: only then may another node take its place.
    for (const { rule, capability, action } of changes) {
      if (capability !== GATES || action !== "remove") continue;
      const before = this.#tally.stake(name, rule);
      if (before?.phases.includes("heldAgain")) stakes.set(rule, before);
    }
    this.#tally.put(name, [...stakes.values()]);
  }

  written(_name: string, changes: readonly Change[]): void {
    for (const { id, capability, rule, before, after } of changes) {
      if (capability !== GATES || !id.startsWith("annotation/gate.berth.dev/")) continue;
      const next = parseState(after);
      const last = parseState(before);
      // A new record of the same state, or of an earlier release, is no release.
      if (next?.state !== "released" || last?.state === "released") continue;
      const heldForMs = last?.state === "held" ? Math.max(0, this.#options.now() - last.at) : undefined;
      const { why: reason } = next;
      this.#options.onRelease?.({ rule, reason, ...(heldForMs !== undefined && { heldForMs }) });
    }
  }

  gone(name: string): void {
    this.#tally.put(name, []);
  }
}
