/** The checks of a folder of label rules, each giving a reason and a message. All faults are reported at once. */
import { type Reason, reasons } from "../api/reasons.ts";
import { labelKeyProblem } from "../node/validate.ts";
import { isAllowedKey, type LabelOptions } from "./config.ts";
import { type LineFault, quote } from "./extended.ts";

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

/** Names of editors' own files that are valid label keys: backup suffixes, and what vim makes to try a folder. */
const LEFTOVER = /(?:\.(?:swp|swo|swx|bak|orig|rej|tmp|save)|(?:^|\/)4913)$/i;

/** At most this many faults of one file are listed: it may be any file at all. */
const MAX_LISTED = 20;

/** Checks the path of a file, which is the label key. With an error the file is no rule, whatever its content. */
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

/** Lines that no label of a node can ever equal: harmless, and hardly meant so. */
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
  const message = "the file names no label key: its label is removed from every node";
  return [...found, { file, severity: "warning", reason: reasons.EmptyRule, message }];
}

/** The first faults one by one, and how many more there are. */
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

/** Lines are compared as they are, byte for byte. */
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
