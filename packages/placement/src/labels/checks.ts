/** The checks of a folder of label rules, each giving a reason and a message. All faults are reported at once. */
import { type Reason, reasons } from "../api/reasons.ts";
import { labelKeyProblem } from "../node/validate.ts";
import { isAllowedKey, type LabelOptions } from "./config.ts";

/** A fault of a rule file. Without a line it is about the file as a whole, with `file: ""` about the folder. */
export interface RuleProblem {
  /** `error`: the file or line does not work. `warning`: it works, and probably not as meant. */
  readonly severity: "error" | "warning";
  /** Path relative to the folder. */
  readonly file: string;
  /** From 1, with the column in UTF-16 units from 1. */
  readonly line?: number;
  readonly column?: number;
  readonly reason: Reason;
  readonly message: string;
}

type Verdict = Omit<RuleProblem, "file" | "line">;

interface RuleFile {
  /** Path relative to the folder: the label key. */
  readonly path: string;
  readonly options: LabelOptions;
}

/** In order; the first error makes the file no rule. Its content does not matter yet. */
const fileChecks: readonly ((file: RuleFile) => Verdict | undefined)[] = [
  keyIsValid,
  keyIsAllowed,
  isNoLeftover,
];

/** Names of editors' own files that are valid label keys: backup suffixes, and what vim makes to try a folder. */
const LEFTOVER = /(?:\.(?:swp|swo|swx|bak|orig|rej|tmp|save)|(?:^|\/)4913)$/i;

/** At most this many faults of one file are listed: it may be any file at all. */
export const MAX_LISTED = 20;

export function checkFile(file: RuleFile): readonly RuleProblem[] {
  const found: RuleProblem[] = [];
  for (const check of fileChecks) {
    const verdict = check(file);
    if (verdict === undefined) continue;
    found.push({ file: file.path, ...verdict });
    if (verdict.severity === "error") break;
  }
  return found;
}

/** Lines that no label of a node can ever equal: harmless, and hardly meant so. */
export function checkLines(file: string, lines: readonly string[]): readonly RuleProblem[] {
  const found: RuleProblem[] = [];
  let hidden = 0;
  for (const [index, line] of lines.entries()) {
    const verdict = line === "" ? undefined : lineCanMatch(line);
    if (verdict === undefined) continue;
    if (found.length < MAX_LISTED) found.push({ file, line: index + 1, ...verdict });
    else hidden += 1;
  }
  if (hidden > 0) {
    const message = `${hidden} more lines of the file are not valid label keys`;
    found.push({ file, severity: "warning", reason: reasons.NeverMatches, message });
  }
  if (lines.every((line) => line === "")) {
    const message = "the file names no label key: its label is removed from every node";
    found.push({ file, severity: "warning", reason: reasons.EmptyRule, message });
  }
  return found;
}

function keyIsValid({ path }: RuleFile): Verdict | undefined {
  const problem = labelKeyProblem(path);
  if (problem === undefined) return undefined;
  const message = `the path is not a valid label key: ${problem}; the file is ignored`;
  return { severity: "error", reason: reasons.InvalidLabelKey, message };
}

function keyIsAllowed({ path, options }: RuleFile): Verdict | undefined {
  if (isAllowedKey(path, options)) return undefined;
  const message = `the domain is reserved for Kubernetes; allow ${path} explicitly to let this rule write it`;
  return { severity: "error", reason: reasons.ReservedLabelKey, message };
}

function isNoLeftover({ path }: RuleFile): Verdict | undefined {
  if (!LEFTOVER.test(path)) return undefined;
  const message = "this looks like a leftover of an editor, and is a rule for the label of that name";
  return { severity: "warning", reason: reasons.EditorLeftover, message };
}

function lineCanMatch(line: string): Verdict | undefined {
  const problem = labelKeyProblem(line);
  if (problem === undefined) return undefined;
  const { column, hint } = whatWasMeant(line) ?? { column: 1, hint: problem };
  return {
    severity: "warning",
    column,
    reason: reasons.NeverMatches,
    message: `no node can carry ${quote(line)}: ${hint}`,
  };
}

/** Lines are compared as they are, byte for byte. */
function whatWasMeant(line: string): { readonly column: number; readonly hint: string } | undefined {
  if (line.endsWith("\r")) return { column: line.length, hint: "the line ends with a carriage return" };
  if (/^\s*(?:#|\/\/)/.test(line)) return { column: 1, hint: "the format has no comments" };
  if (/^\s/.test(line)) return { column: 1, hint: "the line begins with a blank" };
  if (/\s$/.test(line)) return { column: line.trimEnd().length + 1, hint: "the line ends with a blank" };
  if (line.includes("=")) {
    return { column: line.indexOf("=") + 1, hint: "a line is a label key alone; values are not compared" };
  }
  const pattern = line.search(/[*?!()]/);
  return pattern < 0
    ? undefined
    : { column: pattern + 1, hint: "the format has no patterns and no negation" };
}

function quote(line: string): string {
  return JSON.stringify(line.length > 80 ? `${line.slice(0, 80)}…` : line);
}
