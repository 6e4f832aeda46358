/** What must follow from `LabelRule` objects, worked out a second time without a line of the product's own code. */
import type { Labels } from "../oracle.ts";

/** A rule of a story: any of these label keys is enough. */
export interface StoryRule {
  readonly inputs: readonly string[];
  /** Values by key. */
  readonly outputs: Labels;
  /** Seconds. */
  readonly removalDelaySeconds: number;
  readonly overwrite?: boolean;
  readonly dryRun?: boolean;
  readonly breaker?: { readonly percent: number; readonly nodes: number };
  readonly confirmAbovePercent?: number;
  /** What the status must say of it. Default `RuleInForce`. With another one it changes nothing. */
  readonly verdict?: Verdict;
}

export type Verdict = "RuleInForce" | "DryRun" | "CyclicRule" | "ConfirmationRequired";

/** By local name. */
export type StoryRules = ReadonlyMap<string, StoryRule>;

/** It is there and changes nothing: its labels stay as they are. */
export function isWithheld({ verdict = "RuleInForce" }: StoryRule): boolean {
  return verdict !== "RuleInForce";
}

/** As the API server takes it. */
export function toSpec(rule: StoryRule): object {
  const { inputs, outputs, removalDelaySeconds, overwrite, dryRun, breaker, confirmAbovePercent } = rule;
  return {
    match: { any: inputs.map((key) => ({ key })) },
    labels: Object.entries(outputs).map(([key, value]) => ({ key, value })),
    removalDelay: `${removalDelaySeconds}s`,
    overwrite: overwrite ?? false,
    dryRun: dryRun ?? false,
    breaker: breaker ?? { percent: 100, nodes: 0 },
    // A merge patch keeps what it does not name.
    confirmAbovePercent: confirmAbovePercent ?? null,
  };
}

/**
 * The labels that rules in force set on a node with these labels of others: the least fixed point, by trying every rule
 * until nothing is new. A value of somebody else stays, and counts as an input. Rules must not disagree.
 */
export function wantedLabels(rules: StoryRules, foreign: Labels): Labels {
  const wanted: Record<string, string> = {};
  const stands = (key: string): boolean => foreign[key] !== undefined || wanted[key] !== undefined;
  for (let before = -1; before !== Object.keys(wanted).length; ) {
    before = Object.keys(wanted).length;
    for (const rule of rules.values()) {
      const { inputs, outputs, overwrite } = rule;
      if (isWithheld(rule) || !inputs.some(stands)) continue;
      for (const [key, value] of Object.entries(outputs)) {
        const isTheirs = foreign[key] !== undefined && foreign[key] !== value && overwrite !== true;
        if (!isTheirs) wanted[key] = value;
      }
    }
  }
  return wanted;
}
