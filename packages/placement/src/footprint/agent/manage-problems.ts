/** Why Berth cannot manage the DaemonSets of agents, by footprint: for conditions and metrics. */
import type { Footprint } from "../footprint.ts";
import type { AgentProblem } from "./check.ts";

/** Holds one entry for each footprint whose DaemonSet Berth cannot manage. */
export class ManageProblems {
  readonly #onChange: (rule: string) => void;
  readonly #entries = new Map<string, { readonly target: string; readonly problem: AgentProblem }>();

  /** @param onChange the problem of a footprint has changed. Called at once: collect the calls. Must not throw. */
  constructor({ onChange }: { readonly onChange: (rule: string) => void }) {
    this.#onChange = onChange;
  }

  /** `undefined` when no problem is known. Ignores a problem that was recorded for another label or DaemonSet. */
  of(footprint: Footprint): AgentProblem | undefined {
    const entry = this.#entries.get(footprint.rule);
    return entry?.target === targetOf(footprint) ? entry.problem : undefined;
  }

  /**
   * @param problem `undefined`: no problem. A problem with the same reason as before does not call `onChange`: a
   * refusal may contain a time, so that its text differs each time.
   */
  put(footprint: Footprint, problem: AgentProblem | undefined): void {
    const { rule } = footprint;
    const before = this.of(footprint);
    if (problem === undefined) this.#entries.delete(rule);
    if (before?.reason === problem?.reason) return;
    if (problem !== undefined) this.#entries.set(rule, { target: targetOf(footprint), problem });
    this.#onChange(rule);
  }

  /** Forgets the problems of all other footprints. */
  keep(footprints: readonly Footprint[]): void {
    const targets = new Map(footprints.map((footprint) => [footprint.rule, targetOf(footprint)]));
    for (const [rule, { target }] of this.#entries)
      if (targets.get(rule) !== target) this.#entries.delete(rule);
  }
}

function targetOf({ agent, label }: Footprint): string {
  return JSON.stringify([agent?.nodeSelector, agent?.namespace, agent?.name, label.key, label.value]);
}
