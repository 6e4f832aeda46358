/** What a conversion makes: LabelRules, and everything that could not be part of one. */

import type { Fault } from "@berth/host";
import type { LabelRuleSpec, MatchTerm } from "../document.ts";

export interface ConvertedRule {
  readonly name: string;
  /** Where it comes from, for people. */
  readonly from: string;
  /** As a user would write it, defaults left out. */
  readonly spec: Partial<LabelRuleSpec> & Pick<LabelRuleSpec, "match" | "labels">;
  /** What the original does beyond this, in words. */
  readonly leftOut: readonly string[];
  /** What the user has to know before using it. */
  readonly notes: readonly string[];
}

export interface Conversion {
  readonly rules: readonly ConvertedRule[];
  /** Rules of which nothing could be converted, with why. */
  readonly dropped: readonly { readonly from: string; readonly why: readonly string[] }[];
  /** An error for each rule that is not converted as a whole, a warning for each note. */
  readonly faults: readonly Fault[];
}

/** Reasons of faults of a conversion. */
export const convertReasons = {
  NotConvertible: "NotConvertible",
  ConvertedWithNote: "ConvertedWithNote",
  NotARule: "NotARule",
} as const;

export function joinConversions(all: readonly Conversion[]): Conversion {
  return {
    rules: all.flatMap(({ rules }) => rules),
    dropped: all.flatMap(({ dropped }) => dropped),
    faults: all.flatMap(({ faults }) => faults),
  };
}

/** At most so many conditions stand in one group. */
const MAX_TERMS = 32;

/** Terms of which one has to hold, in groups of their own where there are more than one group holds. */
export function inGroups(terms: readonly MatchTerm[]): readonly MatchTerm[] {
  if (terms.length <= MAX_TERMS) return terms;
  const groups: MatchTerm[] = [];
  for (let at = 0; at < terms.length; at += MAX_TERMS) groups.push({ any: terms.slice(at, at + MAX_TERMS) });
  return inGroups(groups);
}

/** A DNS subdomain made of what the texts hold, as names of objects have to be. */
export function toObjectName(...parts: readonly string[]): string {
  const name = parts
    .join("-")
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, "-")
    .replace(/-*\.[-.]*/g, ".")
    .replace(/^[-.]+/, "")
    // Room for the number that tells names apart.
    .slice(0, 240)
    .replace(/[-.]+$/, "");
  return name === "" ? "rule" : name;
}

/** The rules with names of their own: the second `a` becomes `a-2`. */
export function withDistinctNames(rules: readonly ConvertedRule[]): readonly ConvertedRule[] {
  const taken = new Set<string>();
  return rules.map((rule) => {
    let name = rule.name;
    for (let number = 2; taken.has(name); number++) name = `${rule.name}-${number}`;
    taken.add(name);
    return { ...rule, name };
  });
}
