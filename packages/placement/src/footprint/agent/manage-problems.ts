/** What keeps Berth from managing the DaemonSets of agents, by footprint: for conditions and metrics. */

import { reasons } from "../../api/reasons.ts";
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

  /** @param problem `undefined`: there is none. The same one again is no change, nor a refusal that only says another time. */
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
  return a === undefined || b === undefined ? a === b : a.reason === b.reason && textOf(a) === textOf(b);
}

/** Each a word of its own: digits within a name (`deny-v1`), and few of them (`rule 12`), say who refuses, or why. */
const VARYING = [
  /\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/, // A date, and its time.
  /\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?/, // A time.
  /(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+/, // A duration, as Go writes it.
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/, // A uid.
  /[0-9a-f]{16,}/, // The id of a trace or request.
  /\d{5,}/, // A resource version.
];
const VARYING_WORD = new RegExp(
  `(?<![\\w.-])(?:${VARYING.map(({ source }) => source).join("|")})(?![\\w-]|\\.\\w)`,
  "g",
);

/** To compare by. Who refuses may say when, or to which request, and so each time something else; all else is exact. */
function textOf({ reason, message }: AgentProblem): string {
  return reason === reasons.WriteRefused ? message.replaceAll(VARYING_WORD, "#") : message;
}
