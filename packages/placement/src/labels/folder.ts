import { type Reason, reasons } from "../api/reasons.ts";
import { checkLines, listLines, pathProblem, type RuleProblem } from "./checks.ts";
import { anyLabel } from "./condition.ts";
import { defaultLabelOptions, isAllowedKey, type LabelOptions } from "./config.ts";
import { parseExtended } from "./extended.ts";
import { compileRules, describeCycle, type LabelRules, type Rule, type RuleSet } from "./rules.ts";
import { DEFAULT_VALUE, fixedValue } from "./value.ts";

/** The content of a folder. `watchFolder` of the runtime delivers this shape. */
export interface LabelFolder {
  /** False when Berth could not read the root or a folder in it, so there may be more files. */
  readonly complete: boolean;
  /** By path relative to the root, separated by `/`: the text of the file, or why Berth could not read it. */
  readonly files: ReadonlyMap<string, { readonly text?: string; readonly problem?: string }>;
}

/** The compiled rules of a folder, and its faults. */
export interface ParsedFolder {
  /** Input for `compileRules`, together with the sets of other sources. */
  readonly set: RuleSet;
  /** Compiled from this folder alone. */
  readonly rules: LabelRules;
  readonly problems: readonly RuleProblem[];
}

/** First part of the rule names of this source; see `Policy.sourcesRead`. */
export const FOLDER = "folder";

/**
 * Parses the folder format. The path of a file is a label key. Each line (split on "\n" only) is a label key, compared
 * byte for byte. A node that has any of these labels gets the label of the path with the value `"true"`.
 *
 * Never throws: it reports a bad file and compiles the others. A file that does not parse, or an unread part of the
 * folder, never means "no node matches": the labels concerned stay as they are.
 */
export function parseLabelFolder(
  folder: LabelFolder,
  options: LabelOptions = defaultLabelOptions,
): ParsedFolder {
  const problems: RuleProblem[] = [];
  const rules: Rule[] = [];
  const frozen = new Map<string, Reason>();
  const refused = new Map<string, Reason>();
  if (!folder.complete) {
    const what = "the folder could not be read completely";
    const message = `${what}: labels of files that are not seen stay on the nodes`;
    problems.push(failure("", reasons.FolderIncomplete, message));
  }
  for (const [path, { text, problem }] of [...folder.files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    // The kubelet (AtomicWriter) keeps its own files in ConfigMap volumes under names with `..`. They are no rules.
    if (path.split("/").some((part) => part.startsWith(".."))) continue;
    const wrongPath = pathProblem(path, options);
    if (wrongPath !== undefined) problems.push(wrongPath);
    if (wrongPath?.severity === "error") continue;
    if (text === undefined) {
      frozen.set(path, reasons.RuleUnreadable);
      const message = `cannot be read (${problem ?? "it has no content"}): its label is neither set nor removed`;
      problems.push(failure(path, reasons.FileUnreadable, message));
      continue;
    }
    const file = options.format === "Extended" ? readExtended(path, text) : readPlain(path, text);
    problems.push(...file.problems);
    if (file.rule !== undefined) rules.push(file.rule);
    else {
      refused.set(nameOf(path), reasons.RuleInvalid);
      frozen.set(path, reasons.RuleInvalid);
    }
  }
  const isAllowed = (key: string): boolean => isAllowedKey(key, options);
  const set: RuleSet = { source: FOLDER, complete: folder.complete, rules, frozen, refused, isAllowed };
  const compiled = compileRules([set]);
  problems.push(...compiled.circular.map(toCyclicProblem), ...compiled.cyclic.map(toRefusedCycle));
  return { set, rules: compiled, problems: problems.sort(inOrder) };
}

interface ReadFile {
  /** Absent when the file does not parse. Its label then stays as it is. */
  readonly rule?: Rule;
  readonly problems: readonly RuleProblem[];
}

function readPlain(path: string, text: string): ReadFile {
  const lines = text.split("\n");
  const plain = new Map<string, number>();
  for (const [at, key] of lines.entries()) if (key !== "" && !plain.has(key)) plain.set(key, at + 1);
  return { rule: plainRule(path, plain), problems: checkLines(path, lines) };
}

/** A rule that holds on a node with any of these labels, whatever their values. */
function plainRule(path: string, plain: ReadonlyMap<string, number>): Rule {
  const cases = [{ when: anyLabel([...plain.keys()]), value: fixedValue(DEFAULT_VALUE) }];
  return { name: nameOf(path), outputs: [{ key: path, cases }], overwrite: true, plain };
}

function readExtended(path: string, text: string): ReadFile {
  const { cases, faults, plain } = parseExtended(text);
  if (faults.length > 0) {
    const kind = { file: path, severity: "error", reason: reasons.RuleInvalid } as const;
    return { problems: listLines(kind, faults, "not understood") };
  }
  const rule = plain
    ? plainRule(path, plain)
    : { name: nameOf(path), outputs: [{ key: path, cases }], overwrite: true };
  return { rule, problems: cases.length === 0 ? checkLines(path, []) : [] };
}

function nameOf(path: string): string {
  return `${FOLDER}/${path}`;
}

function failure(file: string, reason: Reason, message: string): RuleProblem {
  return { severity: "error", file, reason, message };
}

function toCyclicProblem({ rule, input, line }: LabelRules["circular"][number]): RuleProblem {
  const file = rule.name.slice(FOLDER.length + 1);
  const how = file === input ? "names its own label" : `and ${input} depend on each other`;
  const message = `${file} ${how}: a label that Berth sets never supports itself; the other lines work`;
  return { severity: "warning", file, line, column: 1, reason: reasons.CyclicRule, message };
}

function toRefusedCycle(refusal: LabelRules["cyclic"][number]): RuleProblem {
  const message = `${describeCycle(refusal)}; it is not in force, and its label stays`;
  return failure(refusal.rule.name.slice(FOLDER.length + 1), reasons.CyclicRule, message);
}

function inOrder(a: RuleProblem, b: RuleProblem): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0);
}
