/** Conditions of rules, compiled once: what to ask of a node, and which labels can make it worth asking. */

import { comparatorTo } from "./compare.ts";
import type { MatchExpression, MatchGroup, MatchTerm, Operator } from "./document.ts";
import { type FactRef, type ReadFact, unknown } from "./facts.ts";
import { compilePattern } from "./pattern.ts";

/** `undefined`: it cannot be told, because a fact cannot. */
export type Truth = boolean | undefined;

export interface Condition {
  test(read: ReadFact): Truth;
  /** Where none of these labels stands the condition is false; `undefined`: it can hold without any label. */
  readonly triggers: ReadonlySet<string> | undefined;
  /** Every fact that it may look at. */
  readonly reads: readonly FactRef[];
}

/** A fault of a rule that only compiling finds, with the path of the field. */
export interface ConditionFault {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

type OnFault = (fault: ConditionFault) => void;

/** Holds always. */
export const always: Condition = { test: () => true, triggers: undefined, reads: [] };

/** Holds where at least one of these labels stands, whatever its value. */
export function anyLabel(keys: readonly string[]): Condition {
  return {
    test: (read) => or(keys.values(), (key) => exists(read("Label", key))),
    triggers: new Set(keys),
    reads: keys.map((key) => ({ source: "Label", key })),
  };
}

/** The condition of a group of terms. Faults are reported, and what is at fault never holds. */
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
  return { test: (read) => and(parts, (part) => part.test(read)), triggers, reads: readsOf(parts) };
}

export function anyOf(parts: readonly Condition[]): Condition {
  const triggers = new Set<string>();
  let bounded = true;
  for (const part of parts) {
    if (part.triggers === undefined) bounded = false;
    else for (const key of part.triggers) triggers.add(key);
  }
  return {
    test: (read) => or(parts, (part) => part.test(read)),
    triggers: bounded ? triggers : undefined,
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
    test(read) {
      const fact = read(source, key);
      if (fact === unknown) return undefined;
      return fact === undefined ? negative : holds(fact);
    },
    triggers: source === "Label" && !negative ? new Set([key]) : undefined,
    reads: [{ source, key }],
  };
}

/** For a fact that is there. */
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
  const accepts = ORDER[operator];
  return (fact) => {
    const order = compare(fact);
    return order !== undefined && accepts(order);
  };
}

type Comparison = Exclude<Operator, "In" | "NotIn" | "Exists" | "DoesNotExist" | "Matches" | "DoesNotMatch">;

const ORDER: Readonly<Record<Comparison, (order: number) => boolean>> = {
  Gt: (order) => order > 0,
  Ge: (order) => order >= 0,
  Lt: (order) => order < 0,
  Le: (order) => order <= 0,
};

function exists(fact: ReturnType<ReadFact>): Truth {
  return fact === unknown ? undefined : fact !== undefined;
}

function and<T>(parts: Iterable<T>, test: (part: T) => Truth): Truth {
  let told = true;
  for (const part of parts) {
    const truth = test(part);
    if (truth === false) return false;
    if (truth === undefined) told = false;
  }
  return told ? true : undefined;
}

function or<T>(parts: Iterable<T>, test: (part: T) => Truth): Truth {
  let told = true;
  for (const part of parts) {
    const truth = test(part);
    if (truth === true) return true;
    if (truth === undefined) told = false;
  }
  return told ? false : undefined;
}
