/** The architecture capability of the node writer: it sets the taint of each node, and nothing else. */

import type { FieldMask } from "@berth/host";
import type { Node } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import {
  type BoundCapability,
  type Finding,
  type NodeDecision,
  type NodeView,
  nothingWanted,
  type RuleOutcome,
  unreadPolicy,
} from "../node/capability.ts";
import { type Mark, type MarkId, markFields, standingMarks, standingValue, taintId } from "../node/mark.ts";
import { matchesSelector } from "../node/selector.ts";
import { isExclusivePlace, placeOf } from "./compile.ts";
import { ARCHITECTURE, type ArchitecturePolicies, type ArchitecturePolicyInForce, taints } from "./policy.ts";

/** Fields of a Node that policies read. */
export const architectureFields: FieldMask = [...markFields, "status.nodeInfo.architecture"];

/**
 * The state of a node for a policy that selects it. `Tainted`: Berth set the taint, or the original key has the right
 * value; no other controller owns that key. `TaintedByOthers`: Berth did not set it. `Untainted`: the node lacks it.
 */
export type ArchitecturePhase = "Tainted" | "TaintedByOthers" | "Untainted";

/**
 * Taints of architecture policies. Watches: Nodes. Owns: `taint/<key>:NoSchedule` for each key of a policy that taints;
 * for the original key, taints with any effect. Control-plane, cordoned and not-ready nodes get taints too.
 */
export function bindArchitecture(binding: {
  /** The policies in force; `undefined` until some source has been read. */
  readonly policies: () => ArchitecturePolicies | undefined;
  /** Is the bootstrap of the policy with this rule over? From `bootstrap.ts`. */
  readonly tainting: (rule: string) => boolean;
}): BoundCapability {
  const { policies: current, tainting } = binding;
  return {
    name: ARCHITECTURE,
    contribute(view) {
      const policies = current();
      if (policies === undefined)
        return { capability: ARCHITECTURE, policy: unreadPolicy, decision: nothingWanted };
      const decision = decideArchitecture(view, policies.policies, tainting);
      return { capability: ARCHITECTURE, policy: policies.policy, decision };
    },
    inputs({ node }, mark) {
      const isOurs = current()?.policies.some(({ rule }) => rule === mark.rule) ?? false;
      const architecture = architectureOf(node);
      return isOurs && architecture !== undefined ? [`nodeInfo.architecture=${architecture}`] : [];
    },
  };
}

/** Pure and total. If several policies use one key, the first that taints the node owns the mark. */
function decideArchitecture(
  { node, owned, trace }: NodeView,
  policies: readonly ArchitecturePolicyInForce[],
  tainting: (rule: string) => boolean,
): NodeDecision {
  const architecture = architectureOf(node);
  const concerned = policies.filter((policy) => {
    const { rule, spec } = policy;
    const note = trace?.for(rule, "taint");
    const isMeant = taints(policy);
    note?.({ what: "mode is Taint or Both", value: spec.mode, holds: isMeant });
    note?.({ what: "the bootstrap of the policy is over", holds: tainting(rule) });
    const value = architecture === undefined ? {} : { value: architecture };
    note?.({ what: "the node reports its architecture", ...value, holds: architecture !== undefined });
    if (!isMeant && note === undefined) return false;
    return matchesSelector(spec.taint.nodeSelector, node.metadata?.labels, note) && isMeant;
  });
  if (concerned.length === 0) return nothingWanted;
  const marks = new Map<MarkId, Mark>();
  const waiting = new Map<MarkId, string>();
  const outcomes: RuleOutcome[] = [];
  for (const policy of concerned) {
    const { rule } = policy;
    const id = taintId(policy.spec.taint.key, "NoSchedule");
    outcomes.push({ rule, place: id, phase: phaseAt(id, { node, owned }) });
    if (placeOf(policy) === undefined) continue;
    if (architecture === undefined || !tainting(rule)) waiting.set(id, waiting.get(id) ?? rule);
    else if (!marks.has(id)) {
      const reason = reasons.ArchitectureTainted;
      marks.set(id, { id, value: architecture, rule, reason, foreign: "overwrite" });
    }
  }
  for (const id of marks.keys()) waiting.delete(id);
  const why = architecture === undefined ? reasons.ArchitectureUnknown : reasons.ArchitectureBootstrapping;
  return {
    marks: [...marks.values()],
    keep: keptWhile(waiting, why, { node, owned }),
    findings: [...waiting].map(([id, rule]) => findingOf(id, rule, why)),
    outcomes,
  };
}

/** `undefined` until the kubelet has registered the node. */
function architectureOf(node: Node): string | undefined {
  const architecture: unknown = node.status?.nodeInfo?.architecture;
  return typeof architecture === "string" && architecture !== "" ? architecture : undefined;
}

function phaseAt(id: MarkId, { node, owned }: NodeView): ArchitecturePhase {
  const value = standingValue(node, id);
  if (value === undefined) return "Untainted";
  if (owned.get(id)?.capability === ARCHITECTURE) return "Tainted";
  return isExclusivePlace(id) && value === architectureOf(node) ? "Tainted" : "TaintedByOthers";
}

/** Marks at these places stay, at the original key with any effect. Berth prunes them only when it sets its own. */
function keptWhile(
  waiting: ReadonlyMap<MarkId, string>,
  why: Reason,
  { node, owned }: NodeView,
): ReadonlyMap<MarkId, Reason> {
  const keep = new Map<MarkId, Reason>();
  const isWaiting = (id: MarkId): boolean =>
    waiting.has(id) || (isExclusivePlace(id) && [...waiting.keys()].some(isExclusivePlace));
  for (const id of [...standingMarks(node).map((mark) => mark.id), ...owned.keys()])
    if (isWaiting(id)) keep.set(id, why);
  return keep;
}

function findingOf(id: MarkId, rule: string, reason: Reason): Finding {
  const message =
    reason === reasons.ArchitectureUnknown
      ? `the node does not report its architecture yet, so ${rule} does not taint it`
      : `${rule} does not taint nodes yet: its status says what it waits for`;
  return { reason, severity: "info", subject: id, message };
}
