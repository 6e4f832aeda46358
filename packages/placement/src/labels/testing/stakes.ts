import { noMarks } from "../../node/mark-set.ts";
import type { NodeOutcome } from "../../node/observer.ts";

/** What became of a rule on a node. */
export interface Stake {
  readonly rule: string;
  readonly matched: boolean;
  readonly labelled: boolean;
  readonly pending: boolean;
  readonly conflictsWith?: string;
}

export function outcomeOf(stakes: readonly Stake[]): NodeOutcome {
  const policy = {
    sourcesRead: new Set<string>(),
    rules: new Set<string>(),
    declared: noMarks,
    allowedProtected: noMarks,
    exclusive: noMarks,
  };
  const outcomes = stakes
    .filter(({ matched }) => matched)
    .map(({ rule, conflictsWith }) => (conflictsWith === undefined ? { rule } : { rule, conflictsWith }));
  const decision = { marks: [], keep: new Map(), findings: [], outcomes };
  const recorded = ({ rule }: Stake) => ({ capability: "labels", rule, since: "", by: "berth" });
  return {
    contributions: [{ capability: "labels", policy, decision }],
    owned: new Map(
      stakes
        .filter(({ labelled }) => labelled)
        .map((stake) => [`label/${stake.rule}` as const, recorded(stake)]),
    ),
    changes: stakes
      .filter(({ pending }) => pending)
      .map(({ rule }) => ({
        id: `label/${rule}`,
        action: "remove",
        capability: "labels",
        rule,
        reason: "InputGone",
      })),
    withheld: new Map(
      stakes.filter(({ pending }) => pending).map(({ rule }) => [`label/${rule}`, "RemovalDelayed"]),
    ),
  };
}
