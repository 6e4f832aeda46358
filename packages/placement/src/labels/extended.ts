/**
 * The extended format of rule files: one kubectl label selector per line, with comments and optional label values.
 *
 * ```
 * # any line is enough, the first that matches counts
 * feature.example.com/gen in (3, 4), !example.com/legacy   => new
 * feature.example.com/gen=2                                => old
 * example.com/forced
 * ```
 */

import { labelKeyProblem, labelValueProblem } from "../node/validate.ts";
import { comparatorTo } from "./compare.ts";
import { allOf, compileExpression } from "./condition.ts";
import type { MatchExpression, Operator } from "./document.ts";
import type { RuleCase } from "./rules.ts";
import { DEFAULT_VALUE, fixedValue } from "./value.ts";

/** A line that does not parse. */
export interface LineFault {
  /** Counted from 1. The column is in UTF-16 units, also from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

export interface ExtendedFile {
  readonly cases: readonly RuleCase[];
  readonly faults: readonly LineFault[];
  /** Only for a file in which every line is a single label key: the keys, with the first line of each. */
  readonly plain?: ReadonlyMap<string, number>;
}

/** Never throws: every line is a case or a fault. Ignores blank lines and comments. CRLF ends a line like LF. */
export function parseExtended(text: string): ExtendedFile {
  const cases: RuleCase[] = [];
  const faults: LineFault[] = [];
  const plain = new Map<string, number>();
  let isPlain = true;
  for (const [index, raw] of text.split("\n").entries()) {
    const code = withoutComment(raw);
    if (code.trim() === "") continue;
    const parsed = parseLine(code);
    if ("message" in parsed) faults.push({ line: index + 1, ...parsed });
    else {
      cases.push(parsed);
      const key = code.trim();
      if (labelKeyProblem(key) !== undefined) isPlain = false;
      else if (!plain.has(key)) plain.set(key, index + 1);
    }
  }
  return { cases, faults, ...(isPlain && { plain }) };
}

/** A comment begins with `#` at the start or after a blank. No label key or value contains `#`. */
function withoutComment(line: string): string {
  const at = line.search(/(?:^|\s)#/);
  return (at < 0 ? line : line.slice(0, at)).trimEnd();
}

type Fault = Omit<LineFault, "line">;

/** In UTF-16 units. The limit keeps parsing cheap, and real selectors are shorter. */
const MAX_LINE = 1000;

function parseLine(code: string): RuleCase | Fault {
  if (code.length > MAX_LINE)
    return { column: MAX_LINE, message: `a line has at most ${MAX_LINE} characters` };
  const arrow = code.indexOf("=>");
  const selector = arrow < 0 ? code : code.slice(0, arrow);
  const value = arrow < 0 ? DEFAULT_VALUE : code.slice(arrow + 2).trim();
  const problem = labelValueProblem(value);
  if (problem !== undefined)
    return { column: arrow + 3, message: `the value after => is not valid: ${problem}` };
  const expressions = parseSelector(selector);
  if ("message" in expressions) return expressions;
  const parts = expressions.map((expression) => compileExpression(expression, () => {}, []));
  return { when: allOf(parts), value: fixedValue(value) };
}

const REQUIREMENT =
  /\s*(!?)\s*([^\s,()=!<>]+)\s*(?:(==|=|!=|>=|<=|>|<)\s*([^\s,()=!<>]*)|(?<=\s)(in|notin)\s*\(([^()]*)\))?\s*(,|$)/y;

const COMPARISONS: Readonly<Record<string, Operator>> = {
  "=": "In",
  "==": "In",
  "!=": "NotIn",
  ">": "Gt",
  ">=": "Ge",
  "<": "Lt",
  "<=": "Le",
  in: "In",
  notin: "NotIn",
};

function parseSelector(selector: string): readonly MatchExpression[] | Fault {
  const expressions: MatchExpression[] = [];
  const pattern = new RegExp(REQUIREMENT);
  for (;;) {
    const column = pattern.lastIndex + 1;
    const match = pattern.exec(selector);
    if (match === null)
      return { column, message: `${quote(selector.slice(column - 1).trim())} is no label selector` };
    const [, not = "", key = "", sign, single = "", list, listed = "", end] = match;
    const operator = COMPARISONS[sign ?? list ?? ""];
    if (not !== "" && operator !== undefined) return { column, message: "`!` stands before a key alone" };
    const values = list === undefined ? [single] : listed.split(",").map((value) => value.trim());
    const expression: MatchExpression =
      operator === undefined
        ? { key, operator: not === "" ? "Exists" : "DoesNotExist" }
        : { key, operator, values };
    const problem = problemOf(expression);
    if (problem !== undefined) return { column, message: problem };
    expressions.push(expression);
    if (end !== ",") return expressions;
  }
}

function problemOf({ key, operator, values = [] }: MatchExpression): string | undefined {
  const problem = labelKeyProblem(key);
  if (problem !== undefined) return `${JSON.stringify(key)} is not a label key: ${problem}`;
  for (const value of values) {
    if (operator !== "In" && operator !== "NotIn") {
      if (comparatorTo("Quantity", value) === undefined) return `${JSON.stringify(value)} is not a number`;
      continue;
    }
    const wrong = labelValueProblem(value);
    if (wrong !== undefined) return `${JSON.stringify(value)} is not a label value: ${wrong}`;
  }
  return undefined;
}

/** Quotes at most 80 characters of the text. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
