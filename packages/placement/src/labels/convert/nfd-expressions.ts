/** Converts one comparison of Node Feature Discovery (NFD) to terms of a LabelRule. All terms must hold. */

import { labelValueProblem } from "../../node/validate.ts";
import type { MatchTerm, Operator } from "../document.ts";
import { type ElementLabel, NFD_MARK } from "./nfd-labels.ts";
import type { NfdExpression } from "./nfd-schema.ts";

/** Why there are no terms: `unavailable` names a feature that no label shows; a text describes any other cause. */
export type Problem = string | { readonly unavailable: string };

export type Converted = { readonly terms: readonly MatchTerm[] } | { readonly problem: Problem };

/** Without this annotation NFD has not labelled the node yet, so a missing label means nothing. */
export const seenByNfd: MatchTerm = { source: "Annotation", key: NFD_MARK };

/**
 * In NFD every operator except `DoesNotExist` is false for an absent element, even `NotIn`. In a LabelRule `NotIn` is
 * true for an absent label, as in a node selector. So the terms for `NotIn` also require the label.
 */
export function convertExpression(label: ElementLabel, expression: NfdExpression): Converted {
  const problem = problemOf(expression);
  if (problem !== undefined) return { problem };
  if (label.kind === "none") return { problem: { unavailable: label.element } };
  const { key } = label;
  const { op, type } = expression;
  if (op === "") return { terms: [] };
  if (label.kind === "equals") return convertEquality(label, expression);
  if (label.kind === "flag" && op !== "Exists" && op !== "DoesNotExist") {
    return { problem: `${key} is a flag without a value, which ${op} never matches` };
  }
  const unheld = LISTED.has(op)
    ? expression.value?.find((it) => labelValueProblem(it) !== undefined)
    : undefined;
  if (unheld !== undefined)
    return {
      problem: `no label can hold the value ${JSON.stringify(unheld)} of ${key}: keep this part in a NodeFeatureRule`,
    };
  const isWhole = label.kind === "value" && label.whole === true;
  const needsWhole = numbersOf(expression) > 0 && type !== "version" && !isWhole;
  // NFD compares whole numbers only: `22.04` and `16Gi` match nothing.
  const wholeNumber: MatchTerm = { key, operator: "Matches", values: ["^[-+]?[0-9]+$"] };
  return { terms: [...(needsWhole ? [wholeNumber] : []), ...convertComparison(key, expression)] };
}

function convertComparison(key: string, { op, value = [], type }: NfdExpression): readonly MatchTerm[] {
  const [first = "", second = ""] = value;
  const compareAs = type === "version" ? ({ compareAs: "Version" } as const) : {};
  const compare = (operator: Operator, bound: string): MatchTerm => {
    return { key, operator, values: [bound], ...compareAs };
  };
  const terms: Readonly<Record<NfdExpression["op"], readonly MatchTerm[]>> = {
    "": [],
    Exists: [{ key }],
    DoesNotExist: [{ key, operator: "DoesNotExist" }, seenByNfd],
    In: [{ key, operator: "In", values: value }],
    NotIn: [{ key }, { key, operator: "NotIn", values: value }],
    InRegexp: [{ key, operator: "Matches", values: [anyPattern(value)] }],
    IsTrue: [{ key, operator: "In", values: ["true"] }],
    IsFalse: [{ key, operator: "In", values: ["false"] }],
    Gt: [compare("Gt", first)],
    Ge: [compare("Ge", first)],
    Lt: [compare("Lt", first)],
    Le: [compare("Le", first)],
    GtLt: [compare("Gt", first), compare("Lt", second)],
    GeLe: [compare("Ge", first), compare("Le", second)],
  };
  return terms[op];
}

/** The label shows only whether the element has one value. Comparisons with other values cannot be converted. */
function convertEquality(
  { key, value: on }: Extract<ElementLabel, { kind: "equals" }>,
  { op, value = [] }: NfdExpression,
): Converted {
  const isOn = [{ key, operator: "In", values: ["true"] } as const];
  const isOff = [{ key, operator: "NotIn", values: ["true"] } as const, seenByNfd];
  if (op === "In" && value.includes(on) && value.every((it) => it === on || it === "m")) {
    return { terms: isOn };
  }
  if (on === "true") {
    if (op === "IsTrue" || (op === "NotIn" && value.join() === "false")) return { terms: isOn };
    if (op === "IsFalse" || (op === "In" && value.join() === "false")) return { terms: isOff };
    if (op === "NotIn" && value.join() === on) return { terms: isOff };
  } else {
    // NFD has no element for a kernel option that is off.
    if (op === "Exists") return { terms: isOn };
    if (op === "DoesNotExist") return { terms: isOff };
  }
  return { problem: `the label ${key} only tells whether it is ${on}` };
}

function anyPattern(patterns: readonly string[]): string {
  const [only = ""] = patterns;
  return patterns.length === 1 ? only : patterns.map((pattern) => `(?:${pattern})`).join("|");
}

/** Lists of values, not of patterns. */
const LISTED: ReadonlySet<NfdExpression["op"]> = new Set(["In", "NotIn"]);

const LISTS: ReadonlySet<NfdExpression["op"]> = new Set(["In", "NotIn", "InRegexp"]);

/** The number of numeric operands of the operator. */
function numbersOf({ op }: NfdExpression): 0 | 1 | 2 {
  if (op === "GtLt" || op === "GeLe") return 2;
  return op === "Gt" || op === "Ge" || op === "Lt" || op === "Le" ? 1 : 0;
}

/** Finds expressions that NFD refuses. NFD sets no label for such a rule. */
function problemOf(expression: NfdExpression): string | undefined {
  const { op, value = [], type } = expression;
  const numbers = numbersOf(expression);
  if (LISTS.has(op)) return value.length === 0 ? `${op} takes values` : undefined;
  if (value.length !== numbers) return `${op} takes ${["no value", "one value", "two values"][numbers]}`;
  const isWhole = type === "version" || value.every((text) => /^[-+]?\d+$/.test(text));
  return isWhole ? undefined : `${op} compares whole numbers`;
}
