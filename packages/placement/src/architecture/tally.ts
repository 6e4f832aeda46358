/** Counts decisions about pods, DaemonSets and nodes: for the bootstrap, the status and the metrics. */

import { type Stake, Tally } from "@berth/host";
import type { RuleOutcome } from "../node/capability.ts";
import { firstOf } from "../node/first-names.ts";
import type { MarkId } from "../node/mark.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import type { ArchitecturePhase } from "./capability.ts";
import { nothingOpen, type WorkloadObserver, type WorkloadOutcome } from "./pod-view.ts";
import { ARCHITECTURE } from "./policy.ts";
import { MAX_FIRST_UNCOVERED } from "./resource.ts";

/** Workloads that neither tolerate a key nor have a verdict. */
export interface Uncovered {
  readonly pods: number;
  readonly daemonSets: number;
  /** `DaemonSet kube-system/cni`, `Pod default/web-1`: the first by name, at most 5. */
  readonly first: readonly string[];
}

/** Pods of one policy that still wait, or that can run nowhere. */
export interface PodCounts {
  /** Pods that are held, or lack tolerations, because Berth has no facts about their images. */
  readonly waiting: number;
  readonly impossible: number;
}

const POD = "Pod ";
const COUNTED = { waiting: ["waiting"], impossible: ["impossible"] } as const;
const UNCOVERED = ["uncovered"] as const;

/**
 * Counts open pods and DaemonSets. Remembers only those that are uncovered or counted: at most all unscheduled pods and
 * DaemonSets, and none once all are settled.
 */
export class ArchitectureTally implements WorkloadObserver {
  /** By rule. */
  readonly #pods: Tally<keyof PodCounts>;
  /** By key of a taint. */
  readonly #uncovered: Tally<"uncovered">;
  /** Cached: Berth reads a summary for each node, but computes it once for each change. */
  readonly #summaries = new Map<string, Uncovered>();

  /** @param onChange called often and at once: collect the calls. */
  constructor(onChange: () => void) {
    this.#pods = new Tally({ onChange });
    this.#uncovered = new Tally({
      onChange: (key) => {
        this.#summaries.delete(key);
        onChange();
      },
    });
  }

  /** Workloads because of which Berth must not taint nodes with this key. */
  uncovered(key: string): Uncovered {
    const summary = this.#summaries.get(key) ?? summaryOf(this.#uncovered.of(key, "uncovered"));
    this.#summaries.set(key, summary);
    return summary;
  }

  pods(rule: string): PodCounts {
    const [waiting, impossible] = [this.#pods.of(rule, "waiting"), this.#pods.of(rule, "impossible")];
    return { waiting: waiting.size, impossible: impossible.size };
  }

  /** Over all policies. */
  get total(): PodCounts & { readonly uncovered: number } {
    return {
      waiting: this.#pods.total("waiting"),
      impossible: this.#pods.total("impossible"),
      uncovered: this.#uncovered.total("uncovered"),
    };
  }

  decided(workload: string, { rule, uncovered, phase }: WorkloadOutcome): void {
    const stakes = Array.from(new Set(uncovered), (key) => ({ rule: key, phases: UNCOVERED }));
    this.#uncovered.put(workload, stakes);
    // Only pods count, not their DaemonSets. A pod without a policy is neither waiting nor impossible.
    const isCounted = rule !== undefined && phase !== "settled" && workload.startsWith(POD);
    const phases = phase === "impossible" ? COUNTED.impossible : COUNTED.waiting;
    this.#pods.put(workload, isCounted ? [{ rule, phases }] : []);
  }

  gone(workload: string): void {
    this.decided(workload, nothingOpen);
  }
}

/** @param names as in outcomes. */
export function summaryOf(names: ReadonlySet<string>): Uncovered {
  let pods = 0;
  for (const name of names) if (name.startsWith(POD)) pods += 1;
  return { pods, daemonSets: names.size - pods, first: firstOf(names, MAX_FIRST_UNCOVERED) };
}

type TaintPhase = "tainted" | `standing ${MarkId}`;

/** Counts tainted nodes by policy. Remembers nodes that carry a taint. */
export class ArchitectureNodeTally implements NodeObserver {
  readonly #tally: Tally<TaintPhase>;

  /** @param onChange called often and at once: collect the calls. */
  constructor(onChange: () => void) {
    this.#tally = new Tally({ onChange });
  }

  /** Nodes that carry the taint of this policy, even if another controller added it. */
  counts(rule: string): { readonly tainted: number } {
    return { tainted: this.#tally.of(rule, "tainted").size };
  }

  /** Does a node carry this taint as ours, or with the right value at the original key? Then the bootstrap is over. */
  isStanding(rule: string, place: MarkId): boolean {
    return this.#tally.of(rule, `standing ${place}`).size > 0;
  }

  /** Nodes that carry the taint of any policy. */
  get tainted(): number {
    return this.#tally.total("tainted");
  }

  decided(name: string, { contributions }: Pick<NodeOutcome, "contributions">): void {
    const ours = contributions.find(({ capability }) => capability === ARCHITECTURE);
    this.#tally.put(name, (ours?.decision.outcomes ?? []).flatMap(toStake));
  }

  gone(name: string): void {
    this.#tally.put(name, []);
  }
}

function toStake({ rule, phase, place }: RuleOutcome): readonly Stake<TaintPhase>[] {
  if (phase === undefined || phase === "Untainted") return [];
  const isStanding = (phase as ArchitecturePhase) === "Tainted" && place !== undefined;
  return [{ rule, phases: isStanding ? ["tainted", `standing ${place}`] : ["tainted"] }];
}
