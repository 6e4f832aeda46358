import type { Node } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";
import type { Trace } from "./explain/trace.ts";
import { type Mark, type MarkId } from "./mark.ts";
import { type MarkSet, noMarks } from "./mark-set.ts";
import type { RecordedMark } from "./record.ts";

/** A time in milliseconds since the Unix epoch. It is always an argument, because a decision never reads a clock. */
export type Instant = number;

/** The view of a node that every capability gets. A capability can extend it (pods, DaemonSets) by readonly data. */
export interface NodeView {
  readonly node: Node;
  /** The marks on the node that this installation recorded as its own. */
  readonly owned: ReadonlyMap<MarkId, RecordedMark>;
  /** Owned marks that are no longer wanted and whose removal waits. Rules treat them as present. */
  readonly staying?: ReadonlySet<MarkId>;
  /** Where the decision notes what it compares for one rule. Only a command that explains gives one. */
  readonly trace?: Trace;
}

/** A message for the user: `plan` shows it, and a warning is also an Event. */
export interface Finding {
  readonly reason: Reason;
  /** `info` is listed; `warning` is also sent as an Event, once while it lasts. */
  readonly severity: "info" | "warning";
  /** The subject of the message: a mark id, a rule, or `node`. */
  readonly subject: string;
  readonly message: string;
}

/** The decision of a capability about one node. */
export interface NodeDecision {
  /** Every mark that the node should have. Berth removes other recorded marks, unless they are in `keep`. */
  readonly marks: readonly Mark[];
  /** Places that Berth must not change now, with the reason: the right value is unknown, or changes are held back. */
  readonly keep: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
  /** The reason for the removal of an own mark, if neither `InputGone` nor `RuleGone` fits. */
  readonly removals?: ReadonlyMap<MarkId, Reason>;
  /** Rules that hold on this node, for counting; those of marks in `keep` too. */
  readonly outcomes?: readonly RuleOutcome[];
  /** When to decide again if nothing changes before, ms. Only a running Berth does, and all capabilities at once. */
  readonly recheckAfterMs?: number;
}

/** The result of one rule for a node. */
export interface RuleOutcome {
  readonly rule: string;
  /** Another rule that wants another value at one of its places. */
  readonly conflictsWith?: string;
  /** The progress of the node under this rule. Each capability defines its own phases. */
  readonly phase?: string;
  /** The place that `phase` describes, for rules whose place can change. */
  readonly place?: MarkId;
}

/**
 * Limits the removal of marks after the inputs of a rule disappear. It does not apply to a deleted rule, because the
 * user deletes a rule on purpose.
 */
export interface RemovalPolicy {
  /** How long a mark stays after the rule stops to hold. */
  readonly delayMs: number;
  /** Removals freeze when more nodes than this would lose a mark of the rule within a minute. Absent: never. */
  readonly breaker?: RemovalBreaker;
  /** When a person confirmed the removals. They do not freeze for `CONFIRMED_MS` from then. */
  readonly confirmedAt?: Instant;
}

export interface RemovalBreaker {
  /** Share of the nodes that carry a mark of the rule. */
  readonly percent: number;
  /** The limit is never below this number of nodes. */
  readonly nodes: number;
}

/** What the configuration of one capability declares, the same for every node. */
export interface Policy {
  /** Names of rule sources (`folder` of `folder/x`) that were read completely. Only their marks are ever removed. */
  readonly sourcesRead: ReadonlySet<string>;
  /** The rules in force. A recorded mark of another rule is removed, as the user has deleted that; but see `refused`. */
  readonly rules: ReadonlySet<string>;
  /**
   * Sources that may still lack some of their rules. A mark of a missing rule stays, unless the rule is in `deleted`.
   */
  readonly unsettled?: { readonly sources: ReadonlySet<string>; readonly deleted: ReadonlySet<string> };
  /**
   * Rules that are not in force because their documents have a fault. Their marks stay: the user has not deleted them.
   * Default none.
   */
  readonly refused?: ReadonlySet<string>;
  /**
   * Berth still reads a source, or knows no rule while some may be missing. It then changes no objects except nodes,
   * where records protect the marks.
   */
  readonly isUndecided?: true;
  /** Undecided only because Berth still reads a source. Default: `false`. */
  readonly isReading?: true;
  /** Every place that a rule could write. Under a protected domain Berth removes nothing else. */
  readonly declared: MarkSet;
  /** Places under a protected domain that the user or a preset allows. They must also be in `declared`. */
  readonly allowedProtected: MarkSet;
  /** Places that only this capability may use. Berth removes every unwanted value there. */
  readonly exclusive: MarkSet;
  /**
   * The taints, and `unschedulable`, that its rules in force may set. A recorded one is removed only where this
   * installation has declared it, here or earlier, because a node's kubelet can forge the record. Default none.
   */
  readonly places?: ReadonlySet<MarkId>;
  /** By rule; for those without an entry marks are removed at once. */
  readonly removals?: ReadonlyMap<string, RemovalPolicy>;
}

/** True when Berth knows the present state of the rule, which may be "deleted". Only then may its marks be removed. */
export function isRuleKnown(policy: Policy, rule: string): boolean {
  const { sourcesRead, rules, unsettled, refused } = policy;
  const source = rule.split("/", 1)[0] ?? "";
  if (!sourcesRead.has(source) || refused?.has(rule) === true) return false;
  return unsettled?.sources.has(source) !== true || rules.has(rule) || unsettled.deleted.has(rule);
}

/** The policy before any configuration is read. It declares nothing, so Berth removes nothing. */
export const unreadPolicy: Policy = Object.freeze({
  sourcesRead: new Set<string>(),
  rules: new Set<string>(),
  declared: noMarks,
  allowedProtected: noMarks,
  exclusive: noMarks,
});

/** A decision that wants nothing. It is shared to save allocations for nodes without rules. */
export const nothingWanted: NodeDecision = Object.freeze({ marks: [], keep: new Map(), findings: [] });

/**
 * One capability's rules about nodes. `decide` is pure, never throws, and is deterministic: the same view,
 * configuration and time give the same decision. It gets no client, lister or clock.
 */
export interface NodeRules<C, V extends NodeView = NodeView> {
  /** Recorded on the node as `c`; must not change between releases. */
  readonly name: string;
  decide(view: V, config: C, now: Instant): NodeDecision;
  policy(config: C): Policy;
  /** For `explain`: the facts of the node that make this mark wanted, as mark ids or text, in stable order. */
  inputs(view: V, config: C, mark: Mark): readonly string[];
}

/** The decision of one capability about one node, with its policy. */
export interface Contribution {
  readonly capability: string;
  readonly policy: Policy;
  readonly decision: NodeDecision;
}

/** A capability with its configuration and its view bound. */
export interface BoundCapability {
  readonly name: string;
  contribute(view: NodeView, now: Instant): Contribution;
  inputs(view: NodeView, mark: Mark): readonly string[];
}

/** Binds configuration and view, so that the node writer can treat all capabilities alike. */
export function bindCapability<C, V extends NodeView>(
  capability: NodeRules<C, V>,
  binding: {
    /** The configuration now; `undefined` until one has been read. Called for each node: return the same value. */
    readonly config: () => C | undefined;
    /** Adds the data that the capability needs in addition to the node. */
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
