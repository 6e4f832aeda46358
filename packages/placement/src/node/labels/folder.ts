import { type Reason, reasons } from "../../api/reasons.ts";
import { checkFile, checkLines, type RuleProblem } from "./checks.ts";
import { defaultLabelOptions, isAllowedKey, type LabelOptions } from "./config.ts";
import { compileRules, type LabelRule, type LabelRules } from "./rules.ts";

/** A folder as it was read; what `watchFolder` of the runtime delivers fits. */
export interface LabelFolder {
  /** False when something may be there that could not be seen, the root included. */
  readonly complete: boolean;
  /** By path relative to the root, `/` between the parts: the text of the file, or why it could not be read. */
  readonly files: ReadonlyMap<string, { readonly text?: string; readonly problem?: string }>;
}

/** The rules of a folder, ready to decide with, and everything that is wrong with it. */
export interface ParsedFolder {
  readonly rules: LabelRules;
  readonly problems: readonly RuleProblem[];
}

/** First part of the rule names of this source; see `Policy.sourcesRead`. */
const SOURCE = "folder";

/**
 * Reads the folder format: the path of a file is a label key, each of its lines (split on "\n" only) is a label key
 * that is compared as it is, and a node that carries any of them gets the label with the value `"true"`.
 *
 * Total: a bad file is reported and the others are rules. A file that cannot be read, or a folder that was not seen
 * completely, never counts as one that matches nothing: the labels concerned stay as they are.
 */
export function parseLabelFolder(
  folder: LabelFolder,
  options: LabelOptions = defaultLabelOptions,
): ParsedFolder {
  const problems: RuleProblem[] = [];
  const rules: LabelRule[] = [];
  const frozen = new Set<string>();
  if (!folder.complete) problems.push(incomplete);
  for (const [path, { text, problem }] of [...folder.files].sort(byPath)) {
    // Bookkeeping of ConfigMap volumes (kubelet's AtomicWriter), never an entry of its own.
    if (path.split("/").some((part) => part.startsWith(".."))) continue;
    const found = checkFile({ path, options });
    problems.push(...found);
    if (found.some(({ severity }) => severity === "error")) continue;
    if (text === undefined) {
      frozen.add(path);
      problems.push(unreadable(path, problem ?? "it has no content"));
      continue;
    }
    const lines = text.split("\n");
    problems.push(...checkLines(path, lines));
    rules.push({ name: `${SOURCE}/${path}`, key: path, anyOf: toLines(lines) });
  }
  const compiled = compileRules({
    rules,
    frozen,
    sourcesRead: folder.complete ? [SOURCE] : [],
    isAllowed: (key) => isAllowedKey(key, options),
  });
  problems.push(...compiled.circular.map(toCyclicProblem));
  return { rules: compiled, problems: problems.sort(inOrder) };
}

/** The first line that names each key. */
function toLines(lines: readonly string[]): ReadonlyMap<string, number> {
  const anyOf = new Map<string, number>();
  for (const [index, key] of lines.entries()) if (key !== "" && !anyOf.has(key)) anyOf.set(key, index + 1);
  return anyOf;
}

const incomplete: RuleProblem = {
  severity: "error",
  file: "",
  reason: reasons.FolderIncomplete,
  message: "the folder could not be read completely: labels of files that are not seen stay on the nodes",
};

function unreadable(file: string, why: string): RuleProblem {
  const reason: Reason = reasons.FileUnreadable;
  return {
    severity: "error",
    file,
    reason,
    message: `cannot be read (${why}): its label is neither set nor removed`,
  };
}

function toCyclicProblem({ rule, input, line }: LabelRules["circular"][number]): RuleProblem {
  const how = rule.key === input ? "names its own label" : `and ${input} depend on each other`;
  return {
    severity: "warning",
    file: rule.key,
    line,
    column: 1,
    reason: reasons.CyclicRule,
    message: `${rule.key} ${how}: a label that Berth sets never supports itself; the other lines work`,
  };
}

function byPath([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function inOrder(a: RuleProblem, b: RuleProblem): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0);
}
