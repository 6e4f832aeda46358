import type { ManagedFieldsEntry, Node } from "@berth/kube";
import { FIELD_MANAGER } from "../../api/keys.ts";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { BoundCapability, Finding, Instant } from "../capability.ts";
import type { Change } from "../change.ts";
import { type FieldHolder, holdersOf } from "../managers.ts";
import { type MarkId, standingValue } from "../mark.ts";
import { mergeContributions } from "../merge.ts";
import { effectiveRecord, type NodePlan, planNode } from "../plan.ts";
import { ownedMarks } from "../record.ts";
import { policyOf } from "../removals.ts";

export interface ExplainInput {
  readonly node: Node;
  readonly capabilities: readonly BoundCapability[];
  readonly installation: string;
  readonly now: Instant;
  /** See `PlanInput`. */
  readonly declared?: ReadonlySet<MarkId>;
  /** From a live read, because caches do not hold them. Default: those of `node`. */
  readonly managedFields?: readonly ManagedFieldsEntry[];
}

/** The explanation of one place of a node. */
export interface MarkExplanation {
  readonly id: MarkId;
  /** The present and the wanted value; absent for no value. */
  readonly standing?: string;
  readonly wanted?: string;
  readonly capability: string;
  readonly rule: string;
  /** When the record entry began, RFC 3339; absent without an entry. */
  readonly since?: string;
  /** Why it is wanted, will change, or stays. */
  readonly reason: Reason;
  /** The action of the next write; absent when no change is needed. */
  readonly next?: Change["action"];
  /** How long a removal waits after the inputs disappear, ms; absent: no delay. Frozen removals wait longer. */
  readonly delayMs?: number;
  /** The facts of the node that the rule read. */
  readonly inputs: readonly string[];
  /** Field managers other than Berth that own the field. */
  readonly alsoHeldBy: readonly FieldHolder[];
}

export interface NodeExplanation {
  readonly node: string;
  readonly marks: readonly MarkExplanation[];
  readonly findings: readonly Finding[];
  readonly plan: NodePlan;
}

/** Explains every mark of a node that a capability wants, has set, or is about to change. Plain data, in order of id. */
export function explainNode(input: ExplainInput): NodeExplanation {
  const { node, installation, now, capabilities } = input;
  const owned = ownedMarks(effectiveRecord(node, undefined), installation);
  const view = { node, owned };
  const merged = mergeContributions(capabilities.map((capability) => capability.contribute(view, now)));
  const plan = planNode({ ...input, merged, listUnrecorded: true });
  const fields = input.managedFields ?? node.metadata?.managedFields ?? [];
  const changes = new Map(plan.changes.map((change) => [change.id, change]));
  const stays = new Map(plan.stays.map((stay) => [stay.id, stay]));
  const ids = new Set([...merged.wanted.keys(), ...changes.keys(), ...stays.keys()]);
  const othersAt = (id: MarkId): readonly FieldHolder[] =>
    holdersOf(fields, id).filter(({ manager }) => manager !== FIELD_MANAGER);
  const explain = (id: MarkId): MarkExplanation => {
    const wanted = merged.wanted.get(id);
    const change = changes.get(id);
    const stay = stays.get(id);
    const capability = wanted?.capability ?? change?.capability ?? stay?.recorded.capability ?? "";
    const owner = capabilities.find(({ name }) => name === capability);
    const standing = standingValue(node, id);
    const since = plan.base?.marks.get(id)?.since;
    const delayMs = change && policyOf(change, merged.policies)?.delayMs;
    return {
      id,
      ...(standing !== undefined && { standing }),
      ...(wanted && { wanted: wanted.mark.value }),
      ...(since !== undefined && { since }),
      ...(change && { next: change.action }),
      ...(delayMs && { delayMs }),
      capability,
      rule: wanted?.mark.rule ?? change?.rule ?? stay?.recorded.rule ?? "",
      reason: change?.reason ?? whyItStays(stay) ?? wanted?.mark.reason ?? reasons.RuleMatched,
      inputs: wanted === undefined || owner === undefined ? [] : owner.inputs(view, wanted.mark),
      alsoHeldBy: othersAt(id),
    };
  };
  const marks = [...ids].sort().map(explain);
  // A place of others has no explanation of its own: its finding says whose it is.
  const findings = plan.findings.map((finding): Finding => {
    const id = finding.subject as MarkId;
    const names = ids.has(id) ? [] : othersAt(id).map(({ manager }) => manager);
    if (names.length === 0) return finding;
    return { ...finding, message: `${finding.message}; held by ${names.join(", ")}` };
  });
  return { node: node.metadata?.name ?? "", marks, findings, plan };
}

/** A command always reads rules from the cluster. It knows other rules only if the user gives their files. */
function whyItStays(stay: NodePlan["stays"][number] | undefined): Reason | undefined {
  const isGivenByHand = stay?.reason === reasons.SourceNotRead && !stay.recorded.rule.startsWith("cluster/");
  return isGivenByHand ? reasons.SourceNotGiven : stay?.reason;
}
