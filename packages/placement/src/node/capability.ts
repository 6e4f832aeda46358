import type { Node } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";
import { type Mark, type MarkId } from "./mark.ts";
import { type MarkSet, noMarks } from "./mark-set.ts";
import type { RecordedMark } from "./record.ts";

/** A moment, milliseconds since the Unix epoch. Always an argument: a decision never asks what time it is. */
export type Instant = number;

/** What every capability sees of a node. One that needs more (pods, DaemonSets) extends it by plain readonly data. */
export interface NodeView {
  readonly node: Node;
  /** The marks on the node that this installation recorded as its own. */
  readonly owned: ReadonlyMap<MarkId, RecordedMark>;
  /** Those of them that are no longer wanted and whose removal waits: they stand, and count as standing. */
  readonly staying?: ReadonlySet<MarkId>;
}

/** Something a person should be able to see: in `plan`, and as an Event when it is a warning. */
export interface Finding {
  readonly reason: Reason;
  /** `info` is listed; `warning` is also sent as an Event, once while it lasts. */
  readonly severity: "info" | "warning";
  /** What it is about: a mark id, a rule, or `node`. */
  readonly subject: string;
  readonly message: string;
}

/** What a capability says about one node. */
export interface NodeDecision {
  /** Every mark that should stand. What is recorded and not listed is removed, unless it is in `keep`. */
  readonly marks: readonly Mark[];
  /** Places where what stands stays, with why: it cannot be told, or must not change at present. */
  readonly keep: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
  /** Why a mark of ours is not wanted any more, where `InputGone` or `RuleGone` does not say it. */
  readonly removals?: ReadonlyMap<MarkId, Reason>;
  /** Rules that hold on this node, for counting. */
  readonly outcomes?: readonly RuleOutcome[];
  readonly recheckAfterMs?: number;
}

/** What one rule says about a node. */
export interface RuleOutcome {
  readonly rule: string;
  /** Another rule that wants another value at one of its places. */
  readonly conflictsWith?: string;
  /** Where the node stands with it, in the capability's own words. */
  readonly phase?: string;
  /** The place that `phase` is about, where a rule can come to have another one. */
  readonly place?: MarkId;
}

/**
 * How carefully the marks of a rule are removed when the inputs vanished that made it hold. Never applies to a rule
 * that was deleted: that is on purpose.
 */
export interface RemovalPolicy {
  /** How long a mark stays after the rule stopped to hold. */
  readonly delayMs: number;
  /** Removals freeze when more nodes than this would lose a mark of the rule within a minute. Absent: never. */
  readonly breaker?: RemovalBreaker;
  /** When a person said that removals may go on: they do not freeze for `CONFIRMED_MS` from then. */
  readonly confirmedAt?: Instant;
}

export interface RemovalBreaker {
  /** Of the nodes that carry a mark of the rule. */
  readonly percent: number;
  /** Never below so many nodes. */
  readonly nodes: number;
}

/** What the configuration of one capability declares, the same for every node. */
export interface Policy {
  /** Names of the rule sources (`folder` of `folder/x`) that were read completely: only their marks are removed. */
  readonly sourcesRead: ReadonlySet<string>;
  /** The rules there are. A mark whose rule is not here lost it on purpose and not because an input vanished. */
  readonly rules: ReadonlySet<string>;
  /**
   * Sources that may not hold all their rules yet: a mark of a rule that is not there stays, unless the rule is in
   * `deleted`.
   */
  readonly unsettled?: { readonly sources: ReadonlySet<string>; readonly deleted: ReadonlySet<string> };
  /**
   * A source is still being read, or no rule is known and some may be missing: beyond nodes, where records protect the
   * marks, nothing is done or undone.
   */
  readonly isUndecided?: true;
  /** Undecided for the moment that it takes to read a source. Default: `false`. */
  readonly isReading?: true;
  /** Every place that a rule could write. Under a protected domain nothing else is ever removed. */
  readonly declared: MarkSet;
  /** Places under a protected domain that the user, or a preset, allows explicitly. They must be declared as well. */
  readonly allowedProtected: MarkSet;
  /** Places that belong to this capability alone: what stands there unwanted is pruned. */
  readonly exclusive: MarkSet;
  /**
   * The taints, and `unschedulable`, that its rules in force may set. A recorded one is removed only where this
   * installation has declared it, here or earlier, because a node's kubelet can forge the record. Default none.
   */
  readonly places?: ReadonlySet<MarkId>;
  /** By rule; for those without an entry marks are removed at once. */
  readonly removals?: ReadonlyMap<string, RemovalPolicy>;
}

/** Is it known what this rule says now, be it that it was deleted? Only then may its marks be removed. */
export function isRuleKnown({ sourcesRead, rules, unsettled }: Policy, rule: string): boolean {
  const source = rule.split("/", 1)[0] ?? "";
  if (!sourcesRead.has(source)) return false;
  return unsettled?.sources.has(source) !== true || rules.has(rule) || unsettled.deleted.has(rule);
}

/** Nothing has been read: nothing is declared, so nothing is removed. */
export const unreadPolicy: Policy = Object.freeze({
  sourcesRead: new Set<string>(),
  rules: new Set<string>(),
  declared: noMarks,
  allowedProtected: noMarks,
  exclusive: noMarks,
});

/** A decision that wants nothing; shared, so that a node nobody is interested in costs no allocation. */
export const nothingWanted: NodeDecision = Object.freeze({ marks: [], keep: new Map(), findings: [] });

/**
 * One capability's rules about nodes. `decide` is pure, total and deterministic: same view, configuration and time,
 * same decision. It never sees a client, a lister or a clock.
 */
export interface NodeRules<C, V extends NodeView = NodeView> {
  /** Recorded on the node as `c`; must not change between releases. */
  readonly name: string;
  decide(view: V, config: C, now: Instant): NodeDecision;
  policy(config: C): Policy;
  /** What on the node makes this mark wanted, for `explain`: mark ids or facts in words, in stable order. */
  inputs(view: V, config: C, mark: Mark): readonly string[];
}

/** What one capability contributes to one node: its decision, and what its policy declares. */
export interface Contribution {
  readonly capability: string;
  readonly policy: Policy;
  readonly decision: NodeDecision;
}

/** A capability with its configuration and its view of the world filled in. */
export interface BoundCapability {
  readonly name: string;
  contribute(view: NodeView, now: Instant): Contribution;
  inputs(view: NodeView, mark: Mark): readonly string[];
}

/** Fills in configuration and view, so that the node writer can treat all capabilities alike. */
export function bindCapability<C, V extends NodeView>(
  capability: NodeRules<C, V>,
  binding: {
    /** The configuration now; `undefined` until one has been read. Called for each node: return the same value. */
    readonly config: () => C | undefined;
    /** Adds what the capability needs to know beyond the node. */
    readonly observe: (view: NodeView) => V;
  },
): BoundCapability {
  const { name } = capability;
  const unread: Contribution = { capability: name, policy: unreadPolicy, decision: nothingWanted };
  return {
    name,
    contribute(view, now) {
      const config = binding.config();
      if (config === undefined) return unread;
      const decision = capability.decide(binding.observe(view), config, now);
      return { capability: name, policy: capability.policy(config), decision };
    },
    inputs(view, mark) {
      const config = binding.config();
      return config === undefined ? [] : capability.inputs(binding.observe(view), config, mark);
    },
  };
}
