/** Compiles conditions of rules: a test for a node, and the labels without which the test is false. */

import { ALL, ANY, type Comparison, type Note } from "../node/explain/trace.ts";
import { comparatorTo } from "./compare.ts";
import type { MatchExpression, MatchGroup, MatchTerm, Operator } from "./document.ts";
import { type FactRef, type ReadFact, unknown } from "./facts.ts";
import { compilePattern } from "./pattern.ts";

/** `undefined`: the result is unknown because a fact is unknown. */
export type Truth = boolean | undefined;

export interface Condition {
  /** With `note`, every part is tested and noted. */
  test(read: ReadFact, note?: Note): Truth;
  /** The condition is false on a node with none of these labels. `undefined`: it can hold without any label. */
  readonly triggers: ReadonlySet<string> | undefined;
  /** Every fact that the condition may read. */
  readonly reads: readonly FactRef[];
}

/** A fault that the schema does not find, with the path of the field. */
export interface ConditionFault {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

export type OnFault = (fault: ConditionFault) => void;

export const always: Condition = { test: () => true, triggers: undefined, reads: [] };

/** Holds on a node with at least one of these labels, whatever its value. */
export function anyLabel(keys: readonly string[]): Condition {
  return anyOf(keys.map((key) => compileExpression({ key }, () => {}, [])));
}

/** The condition of a group of terms. Reports faults; an expression with a fault is false on every existing fact. */
export function compileGroup(
  { all = [], any }: MatchGroup,
  onFault: OnFault,
  path: ConditionFault["path"] = [],
): Condition {
  const parts = all.map((term, at) => compileTerm(term, onFault, [...path, "all", at]));
  if (any !== undefined) {
    parts.push(anyOf(any.map((term, at) => compileTerm(term, onFault, [...path, "any", at]))));
  }
  return allOf(parts);
}

function compileTerm(term: MatchTerm, onFault: OnFault, path: ConditionFault["path"]): Condition {
  const { key } = term;
  return key === undefined
    ? compileGroup(term, onFault, path)
    : compileExpression({ ...term, key }, onFault, path);
}

export function allOf(parts: readonly Condition[]): Condition {
  const [only] = parts;
  if (only === undefined) return always;
  if (parts.length === 1) return only;
  const bounded = parts.flatMap(({ triggers }) => (triggers === undefined ? [] : [triggers]));
  const triggers = bounded.toSorted((a, b) => a.size - b.size)[0];
  return { test: (read, note) => firstOr(false, parts, read, note), triggers, reads: readsOf(parts) };
}

export function anyOf(parts: readonly Condition[]): Condition {
  const isBounded = parts.every(({ triggers }) => triggers !== undefined);
  const triggers = new Set(parts.flatMap((part) => Array.from(part.triggers ?? [])));
  return {
    test: (read, note) => firstOr(true, parts, read, note),
    triggers: isBounded ? triggers : undefined,
    reads: readsOf(parts),
  };
}

function readsOf(parts: readonly Condition[]): readonly FactRef[] {
  const unique = new Map(parts.flatMap(({ reads }) => reads.map((it) => [`${it.source}/${it.key}`, it])));
  return [...unique.values()];
}

const NEGATIVE: ReadonlySet<Operator> = new Set(["NotIn", "DoesNotExist", "DoesNotMatch"]);

/** One comparison of one fact. */
export function compileExpression(
  expression: MatchExpression,
  onFault: OnFault,
  path: ConditionFault["path"],
): Condition {
  const { source = "Label", key, operator = "Exists" } = expression;
  const holds = compileOperator(expression, onFault, path);
  const negative = NEGATIVE.has(operator);
  return {
    test(read, note) {
      const fact = read(source, key);
      const truth = fact === unknown ? undefined : fact === undefined ? negative : holds(fact);
      note?.({
        what: textOf(expression),
        ...(typeof fact === "string" && { value: fact }),
        holds: truth ?? "unknown",
      });
      return truth;
    },
    triggers: source === "Label" && !negative ? new Set([key]) : undefined,
    reads: [{ source, key }],
  };
}

/** `label example.com/gpu In a, b` */
function textOf({ source = "Label", key, operator = "Exists", values = [] }: MatchExpression): string {
  const what = `${source.charAt(0).toLowerCase()}${source.slice(1)} ${key} ${operator}`;
  return values.length === 0 ? what : `${what} ${values.join(", ")}`;
}

/** The test for a fact that the node has. */
function compileOperator(
  expression: MatchExpression,
  onFault: OnFault,
  path: ConditionFault["path"],
): (fact: string) => boolean {
  const { operator = "Exists", values = [] } = expression;
  const at = [...path, "values", 0];
  if (operator === "Exists" || operator === "DoesNotExist") return () => operator === "Exists";
  if (operator === "In" || operator === "NotIn") {
    const set = new Set(values);
    return (fact) => set.has(fact) === (operator === "In");
  }
  if (operator === "Matches" || operator === "DoesNotMatch") {
    const pattern = compilePattern(values[0] ?? "");
    if (typeof pattern !== "string") return (fact) => pattern.test(fact) === (operator === "Matches");
    onFault({ path: at, message: pattern });
    return () => false;
  }
  const { compareAs: kind = "Quantity" } = expression;
  const [value = ""] = values;
  const compare = comparatorTo(kind, value);
  if (compare === undefined) {
    onFault({ path: at, message: `${JSON.stringify(value)} is not a ${kind.toLowerCase()}` });
    return () => false;
  }
  return (fact) => {
    const order = compare(fact);
    if (order === undefined) return false;
    return order === 0 ? operator.endsWith("e") : order > 0 === operator.startsWith("G");
  };
}

/** Returns `answer` if any part gives it. Otherwise the result is unknown if any part is, or the opposite. */
function firstOr(answer: boolean, parts: readonly Condition[], read: ReadFact, note?: Note): Truth {
  const noted: Comparison[] = [];
  let found: Truth = !answer;
  for (const part of parts) {
    const truth = part.test(read, note && ((comparison) => void noted.push(comparison)));
    if (truth === answer) {
      found = answer;
      if (note === undefined) break;
    } else if (truth === undefined && found !== answer) found = undefined;
  }
  note?.({ what: answer ? ANY : ALL, holds: found ?? "unknown", parts: noted });
  return found;
}
