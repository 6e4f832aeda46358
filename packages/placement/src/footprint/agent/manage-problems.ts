/** What keeps Berth from managing the DaemonSets of agents, by footprint: for conditions and metrics. */
import type { Footprint } from "../footprint.ts";
import type { AgentProblem } from "./check.ts";

/** As many entries as there are footprints whose DaemonSet cannot be managed. */
export class ManageProblems {
  readonly #onChange: (rule: string) => void;
  readonly #entries = new Map<string, { readonly target: string; readonly problem: AgentProblem }>();

  /** @param onChange something else is to be said of this footprint. Called at once: collect the calls. Must not throw. */
  constructor({ onChange }: { readonly onChange: (rule: string) => void }) {
    this.#onChange = onChange;
  }

  /** `undefined` when nothing is known to be in the way; what was said of another label or DaemonSet is void. */
  of(footprint: Footprint): AgentProblem | undefined {
    const entry = this.#entries.get(footprint.rule);
    return entry?.target === targetOf(footprint) ? entry.problem : undefined;
  }

  /**
   * @param problem `undefined`: there is none. One with the reason of the last is no news: who refuses may say when, and so
   * each time something else.
   */
  put(footprint: Footprint, problem: AgentProblem | undefined): void {
    const { rule } = footprint;
    const before = this.of(footprint);
    if (problem === undefined) this.#entries.delete(rule);
    if (before?.reason === problem?.reason) return;
    if (problem !== undefined) this.#entries.set(rule, { target: targetOf(footprint), problem });
    this.#onChange(rule);
  }

  /** Forgets all others. */
  keep(footprints: readonly Footprint[]): void {
    const targets = new Map(footprints.map((footprint) => [footprint.rule, targetOf(footprint)]));
    for (const [rule, { target }] of this.#entries)
      if (targets.get(rule) !== target) this.#entries.delete(rule);
  }
}

function targetOf({ agent, label }: Footprint): string {
  return JSON.stringify([agent?.nodeSelector, agent?.namespace, agent?.name, label.key, label.value]);
}
