/** The checks of a folder of label rules, each giving a reason and a message. All faults are reported at once. */
import { type Reason, reasons } from "../api/reasons.ts";
import { labelKeyProblem } from "../node/validate.ts";
import { isAllowedKey, type LabelOptions } from "./config.ts";
import { type LineFault, quote } from "./extended.ts";

/** A fault of a rule file. Without `line` it concerns the whole file; with `file: ""`, the folder. */
export interface RuleProblem {
  /** `error`: the file or line has no effect. `warning`: it has an effect, but probably not the one the user wants. */
  readonly severity: "error" | "warning";
  /** Path relative to the folder. */
  readonly file: string;
  /** Counted from 1. The column is in UTF-16 units, also from 1. */
  readonly line?: number;
  readonly column?: number;
  readonly reason: Reason;
  readonly message: string;
}

/** Names of editor files that are valid label keys: backup suffixes, and `4913`, which vim creates to test a folder. */
const LEFTOVER = /(?:\.(?:swp|swo|swx|bak|orig|rej|tmp|save)|(?:^|\/)4913)$/i;

/** At most this many faults of one file are listed. The file may be large and not a rule file at all. */
const MAX_LISTED = 20;

/** Checks the path of a file, which is the label key. After an error Berth ignores the content of the file. */
export function pathProblem(file: string, options: LabelOptions): RuleProblem | undefined {
  const problem = labelKeyProblem(file);
  if (problem !== undefined) {
    const message = `the path is not a valid label key: ${problem}; the file is ignored`;
    return { severity: "error", file, reason: reasons.InvalidLabelKey, message };
  }
  if (!isAllowedKey(file, options)) {
    const message = `the domain is reserved for Kubernetes; allow ${file} explicitly to let this rule write it`;
    return { severity: "error", file, reason: reasons.ReservedLabelKey, message };
  }
  if (!LEFTOVER.test(file)) return undefined;
  const message = "this looks like a leftover of an editor, and is a rule for the label of that name";
  return { severity: "warning", file, reason: reasons.EditorLeftover, message };
}

/** Finds lines that no node label can equal. They have no effect and are probably mistakes, so they are warnings. */
export function checkLines(file: string, lines: readonly string[]): readonly RuleProblem[] {
  const faults = lines.flatMap((text, at): readonly LineFault[] => {
    const problem = text === "" ? undefined : labelKeyProblem(text);
    if (problem === undefined) return [];
    const { column, hint } = whatWasMeant(text) ?? { column: 1, hint: problem };
    return [{ line: at + 1, column, message: `no node can carry ${quote(text)}: ${hint}` }];
  });
  const kind = { file, severity: "warning", reason: reasons.NeverMatches } as const;
  const found = listLines(kind, faults, "not valid label keys");
  if (lines.some((line) => line !== "")) return found;
  const message = "the file names no label key: Berth removes its label from every node";
  return [...found, { file, severity: "warning", reason: reasons.EmptyRule, message }];
}

/** Lists the first faults one by one, then the number of the others. */
export function listLines(
  kind: Pick<RuleProblem, "file" | "severity" | "reason">,
  faults: readonly LineFault[],
  what: string,
): readonly RuleProblem[] {
  const listed = faults.slice(0, MAX_LISTED).map((fault): RuleProblem => Object.assign({}, kind, fault));
  const hidden = faults.length - listed.length;
  return hidden === 0
    ? listed
    : [...listed, { ...kind, message: `${hidden} more lines of the file are ${what}` }];
}

/** Guesses the mistake in a line. Berth compares lines byte for byte, so a blank or a carriage return matters. */
function whatWasMeant(line: string): { readonly column: number; readonly hint: string } | undefined {
  if (line.endsWith("\r")) return { column: line.length, hint: "the line ends with a carriage return" };
  if (/^\s*(?:#|\/\/)/.test(line)) return { column: 1, hint: "the format has no comments" };
  if (/^\s/.test(line)) return { column: 1, hint: "the line begins with a blank" };
  if (/\s$/.test(line)) return { column: line.trimEnd().length + 1, hint: "the line ends with a blank" };
  if (line.includes("=")) {
    return { column: line.indexOf("=") + 1, hint: "a line is a label key alone; values are not compared" };
  }
  const column = line.search(/[*?!()]/) + 1;
  return column === 0 ? undefined : { column, hint: "the format has no patterns and no negation" };
}
