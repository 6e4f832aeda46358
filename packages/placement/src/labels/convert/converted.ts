/** The result of a conversion: documents, and everything that they cannot express. */

import type { Fault } from "@berth/host";
import type { LabelRuleSpec, MatchTerm } from "../document.ts";

/** A LabelRule as a user would write it, without defaults. */
type RuleDraft = Partial<LabelRuleSpec> & Pick<LabelRuleSpec, "match" | "labels">;

/** @typeParam S of a document of another kind: any object. */
export interface ConvertedRule<S extends object = RuleDraft> {
  readonly name: string;
  /** Default `LabelRule`. */
  readonly kind?: string;
  /** File, line and name of the original rule, for messages. */
  readonly from: string;
  readonly spec: S;
  /** In words: each part of the original that this rule does not do. */
  readonly leftOut: readonly string[];
  /** In words: what the user must know before using the rule. */
  readonly notes: readonly string[];
}

export interface Conversion<S extends object = RuleDraft> {
  readonly rules: readonly ConvertedRule<S>[];
  /** Rules without any part that can be converted, with the causes. */
  readonly dropped: readonly { readonly from: string; readonly why: readonly string[] }[];
  /** NodeFeatureRules with which NFD publishes the labels that the rules read. */
  readonly features?: readonly object[];
  /** An error for each rule that is not converted completely, and a warning for each rule with notes. */
  readonly faults: readonly Fault[];
}

/** Reasons of faults of a conversion. */
export const convertReasons = {
  NotConvertible: "NotConvertible",
  ConvertedWithNote: "ConvertedWithNote",
  NotARule: "NotARule",
} as const;

export function joinConversions<S extends object>(all: readonly Conversion<S>[]): Conversion<S> {
  return {
    rules: all.flatMap(({ rules }) => rules),
    dropped: all.flatMap(({ dropped }) => dropped),
    features: all.flatMap(({ features = [] }) => features),
    faults: all.flatMap(({ faults }) => faults),
  };
}

/** The schema of LabelRule allows at most this many terms in one group. */
const MAX_TERMS = 32;
/** It takes groups in groups, and no further ones in those. */
export const MAX_TERMS_OF_RULE: number = MAX_TERMS ** 3;

/** Splits the terms of an `any` into nested `any` groups when one group cannot hold them all. */
export function inGroups(terms: readonly MatchTerm[]): readonly MatchTerm[] {
  if (terms.length <= MAX_TERMS) return terms;
  const groups: MatchTerm[] = [];
  for (let at = 0; at < terms.length; at += MAX_TERMS) groups.push({ any: terms.slice(at, at + MAX_TERMS) });
  return inGroups(groups);
}

/** Turns the texts into a DNS subdomain, which a name of a Kubernetes object must be. */
export function toObjectName(...parts: readonly string[]): string {
  const name = parts
    .join("-")
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, "-")
    .replace(/-*\.[-.]*/g, ".")
    .replace(/^[-.]+/, "")
    // `withDistinctNames` may append a number; the limit of Kubernetes is 253.
    .slice(0, 240)
    .replace(/[-.]+$/, "");
  return name === "" ? "rule" : name;
}

/** Makes the names unique: the second `a` becomes `a-2`. */
export function withDistinctNames<S extends object>(
  rules: readonly ConvertedRule<S>[],
): readonly ConvertedRule<S>[] {
  const taken = new Set<string>();
  return rules.map((rule) => {
    const idOf = (name: string): string => `${rule.kind ?? ""}/${name}`;
    let name = rule.name;
    for (let number = 2; taken.has(idOf(name)); number++) name = `${rule.name}-${number}`;
    taken.add(idOf(name));
    return { ...rule, name };
  });
}
