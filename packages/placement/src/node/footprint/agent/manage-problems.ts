/** What keeps Berth from managing the DaemonSets of agents, by footprint: for conditions and metrics. */

import type { Footprint } from "../footprint.ts";
import type { AgentProblem } from "./check.ts";

export interface ManageProblemsOptions {
  /** Something else is to be said of this footprint. Called at once: collect the calls. Must not throw. */
  readonly onChange: (rule: string) => void;
}

/** As many entries as there are footprints whose DaemonSet cannot be managed. */
export class ManageProblems {
  readonly #options: ManageProblemsOptions;
  readonly #entries = new Map<string, { readonly footprint: Footprint; readonly problem: AgentProblem }>();

  constructor(options: ManageProblemsOptions) {
    this.#options = options;
  }

  /** `undefined` when nothing is known to be in the way; what was said of another label or DaemonSet is void. */
  of(footprint: Footprint): AgentProblem | undefined {
    const entry = this.#entries.get(footprint.rule);
    return entry !== undefined && targetOf(entry.footprint) === targetOf(footprint)
      ? entry.problem
      : undefined;
  }

  /** @param problem `undefined`: there is none. The same one again, as each try has it, is no change. */
  put(footprint: Footprint, problem: AgentProblem | undefined): void {
    const { rule } = footprint;
    const before = this.of(footprint);
    if (problem === undefined) this.#entries.delete(rule);
    if (isSame(before, problem)) return;
    if (problem !== undefined) this.#entries.set(rule, { footprint, problem });
    this.#options.onChange(rule);
  }

  /** Forgets all others, and what was said of another label or DaemonSet: it may be that of a footprint again. */
  keep(footprints: readonly Footprint[]): void {
    const targets = new Map(footprints.map((footprint) => [footprint.rule, targetOf(footprint)]));
    for (const [rule, { footprint }] of this.#entries)
      if (targets.get(rule) !== targetOf(footprint)) this.#entries.delete(rule);
  }
}

function targetOf({ agent, label, placement }: Footprint): string {
  return JSON.stringify([
    agent?.nodeSelector,
    agent?.namespace,
    agent?.name,
    label.key,
    label.value,
    placement,
  ]);
}

function isSame(a: AgentProblem | undefined, b: AgentProblem | undefined): boolean {
  return a === undefined || b === undefined
    ? a === b
    : a.reason === b.reason && withoutNumbers(a.message) === withoutNumbers(b.message);
}

/** Who refuses may say when, or by which request, and so each time something else. */
function withoutNumbers(message: string): string {
  return message.replaceAll(/\S*\d\S*/g, "#");
}
