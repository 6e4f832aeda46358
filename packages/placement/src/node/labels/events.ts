import type { RuleProblem } from "./checks.ts";

/** An Event about the rules themselves; the caller says which object it regards. */
export interface LabelEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** The Event for a fault of a rule file: file, line and what follows from it. */
export function problemEvent(problem: RuleProblem): LabelEvent {
  const line = problem.line === undefined ? "" : `:${problem.line}`;
  const column = problem.column === undefined ? "" : `:${problem.column}`;
  const where = problem.file === "" ? "label folder" : `${problem.file}${line}${column}`;
  const note = `${where}: ${problem.message}`;
  return { type: "Warning", reason: problem.reason, action: "ReadLabelRules", note };
}
