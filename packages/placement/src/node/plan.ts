import type { Node } from "@berth/kube";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { type Reason, reasons } from "../api/reasons.ts";
import { type Finding, type Instant, isRuleKnown, type Policy } from "./capability.ts";
import type { Change } from "./change.ts";
import { annotationId, holdsPods, type MarkId, parseMarkId, standingMarks, standingValue } from "./mark.ts";
import { holdsMark, isEmptyMarkSet } from "./mark-set.ts";
import type { MergedMarks, WantedMark } from "./merge.ts";
import { buildPatch, exceedsAnnotations, type NodePatch } from "./patch.ts";
import {
  type MarkRecord,
  parseRecord,
  type ReadRecord,
  type RecordedMark,
  recordOf,
  toTimestamp,
} from "./record.ts";
import { permits } from "./validate.ts";

/** A recorded mark that is not wanted but stays. */
export interface StayingMark {
  readonly id: MarkId;
  readonly recorded: RecordedMark;
  readonly reason: Reason;
}

/** The changes to make to one node. No changes means that the node is settled. */
export interface NodePlan {
  readonly node: Node;
  /** In order of mark id. */
  readonly changes: readonly Change[];
  readonly stays: readonly StayingMark[];
  readonly findings: readonly Finding[];
  /** The record before the changes; absent when Berth must not change it. */
  readonly base?: MarkRecord;
  /** All changes in one guarded merge patch. */
  readonly patch?: NodePatch;
}

export interface PlanInput {
  readonly node: Node;
  readonly merged: MergedMarks;
  readonly installation: string;
  readonly now: Instant;
  /** The last record that this process read on this node (same uid). Berth restores it if it disappears. */
  readonly lastRecord?: string | undefined;
  /** Taints, and `unschedulable`, that rules of the installation declared earlier. Default: none. */
  readonly declared?: ReadonlySet<MarkId>;
  /** List keys without a record that a rule could have set. Reads every key of the node. Default false. */
  readonly listUnrecorded?: boolean;
}

/**
 * Plans one patch for a node. Pure and deterministic. After the patch, the next plan is empty.
 *
 * Guarantees: never changes a mark that is neither wanted, nor recorded by this installation, nor exclusive. Removes a
 * mark only after its rule source was read, and never while the record is unreadable. Removes a taint or
 * `unschedulable` only where the installation has declared it, because a record can be forged. Never changes a node
 * that is being deleted. Every patch has uid and resourceVersion.
 */
export function planNode(input: PlanInput): NodePlan {
  const { node, merged, installation } = input;
  const { uid, resourceVersion, deletionTimestamp } = node.metadata ?? {};
  if (deletionTimestamp !== undefined || uid === undefined || resourceVersion === undefined) {
    return { node, changes: [], stays: [], findings: [deletingFinding] };
  }
  const read = effectiveRecord(node, input.lastRecord);
  const marks = read.state === "read" ? read.record.marks : noRecord;
  const frozen = read.state === "unreadable";
  const draft: Draft = { ...input, frozen, marks, changes: [], stays: [], findings: [...merged.findings] };
  if (frozen) draft.findings.push(unreadableFinding(read.problem));
  for (const [id, wanted] of merged.wanted) planWanted(draft, id, wanted);
  for (const [id, recorded] of marks) if (!merged.wanted.has(id)) planUnwanted(draft, id, recorded);
  if (frozen) return finish(draft, undefined);
  planExclusive(draft);
  if (input.listUnrecorded === true) listUnrecorded(draft);
  const by = read.state === "read" && marks.size > 0 ? read.record.by : installation;
  return finish(draft, { by, marks });
}

/** The record on the node; if it is absent, the last one that this process read. */
export function effectiveRecord(node: Node, lastRecord: string | undefined): ReadRecord {
  const read = recordOf(node);
  if (read.state !== "absent" || lastRecord === undefined) return read;
  const last = parseRecord(lastRecord);
  return last.state === "read" ? last : read;
}

interface Draft extends PlanInput {
  readonly frozen: boolean;
  readonly marks: ReadonlyMap<MarkId, RecordedMark>;
  readonly changes: Change[];
  readonly stays: StayingMark[];
  readonly findings: Finding[];
}

const noRecord: ReadonlyMap<MarkId, RecordedMark> = new Map();

function planWanted(draft: Draft, id: MarkId, wanted: WantedMark): void {
  const { mark, capability } = wanted;
  const before = standingValue(draft.node, id);
  const last = draft.marks.get(id);
  // A place that another installation recorded is free once its value is gone. That installation may be gone, too.
  const recorded = before === undefined && last?.by !== draft.installation ? undefined : last;
  const ours = recorded?.by === draft.installation;
  const entry = nextEntry(draft, wanted, recorded);
  const change = {
    id,
    capability,
    rule: mark.rule,
    after: mark.value,
    ...(mark.announce && { announce: mark.announce }),
    ...(entry && { entry }),
  };
  if (before === mark.value) {
    if (entry === undefined) return;
    // A mark with `announce: "always"` uses its own reason, even if Berth did not set the value.
    const adopted = mark.announce === "always" ? mark.reason : reasons.Adopted;
    draft.changes.push({
      ...change,
      before,
      action: ours ? "record" : "adopt",
      reason: ours ? reasons.OwnerChanged : adopted,
    });
    return;
  }
  if (before === undefined) {
    draft.changes.push({ ...change, action: "add", reason: ours ? reasons.MarkRestored : mark.reason });
    return;
  }
  const kept = ours ? undefined : whyForeignStays(draft, wanted, recorded);
  if (kept !== undefined) {
    const message = `${mark.rule} wants ${JSON.stringify(mark.value)}; ${JSON.stringify(before)} stays: ${kept.why}`;
    draft.findings.push({ reason: kept.reason, severity: "warning", subject: id, message });
    return;
  }
  const reason = ours ? reasons.ValueRestored : reasons.ForeignValueReplaced;
  draft.changes.push({ ...change, before, action: "overwrite", reason });
}

/** The record entry to write for a wanted mark; `undefined` when it is right already, or Berth must not write it. */
function nextEntry(
  draft: Draft,
  { capability, mark }: WantedMark,
  recorded: RecordedMark | undefined,
): RecordedMark | undefined {
  if (draft.frozen) return undefined;
  const by = draft.installation;
  if (recorded === undefined) return { capability, rule: mark.rule, since: toTimestamp(draft.now), by };
  if (recorded.by !== by) return undefined;
  if (recorded.capability === capability && recorded.rule === mark.rule) return undefined;
  return { capability, rule: mark.rule, since: recorded.since, by };
}

function whyForeignStays(
  draft: Draft,
  { capability, mark }: WantedMark,
  recorded: RecordedMark | undefined,
): { readonly reason: Reason; readonly why: string } | undefined {
  if (recorded !== undefined)
    return { reason: reasons.OtherInstallation, why: `it belongs to the installation ${recorded.by}` };
  const policy = draft.merged.policies.get(capability);
  if (mark.foreign === "overwrite" || (policy && holdsMark(policy.exclusive, mark.id))) return undefined;
  return { reason: reasons.ForeignValueKept, why: "another writer set it" };
}

function planUnwanted(draft: Draft, id: MarkId, recorded: RecordedMark): void {
  const policy = draft.merged.policies.get(recorded.capability);
  const { capability, rule } = recorded;
  const stays = whyStays(draft, id, recorded, policy);
  const before = standingValue(draft.node, id);
  const gone = policy?.rules.has(rule) ? reasons.InputGone : reasons.RuleGone;
  const reason = draft.merged.removals.get(id) ?? gone;
  const change = { id, capability, rule, entry: null };
  if (stays !== undefined) draft.stays.push({ id, recorded, reason: stays });
  else if (before !== undefined) draft.changes.push({ ...change, before, action: "remove", reason });
  else draft.changes.push({ ...change, action: "record", reason: reasons.AlreadyGone });
}

function whyStays(
  draft: Draft,
  id: MarkId,
  recorded: RecordedMark,
  policy: Policy | undefined,
): Reason | undefined {
  if (recorded.by !== draft.installation) return reasons.OtherInstallation;
  const kept = draft.merged.kept.get(id);
  if (kept !== undefined) return kept;
  if (policy?.refused?.has(recorded.rule)) return reasons.RuleInvalid;
  if (policy === undefined || !isRuleKnown(policy, recorded.rule)) return reasons.SourceNotRead;
  if (!holdsPods(id)) return permits(policy, id) ? undefined : reasons.ProtectedKey;
  const isDeclared =
    draft.declared?.has(id) === true || draft.merged.policies.values().some(({ places }) => places?.has(id));
  return isDeclared || standingValue(draft.node, id) === undefined ? undefined : reasons.PlaceNotDeclared;
}

/** Removes unwanted values at places that only one capability may use. */
function planExclusive(draft: Draft): void {
  const { node, merged, marks } = draft;
  // Two capabilities may both claim a place as exclusive. Prune it only once.
  const pruned = new Set<MarkId>();
  for (const [capability, policy] of merged.policies) {
    if (isEmptyMarkSet(policy.exclusive)) continue;
    for (const { id, value } of standingMarks(node)) {
      if (!holdsMark(policy.exclusive, id) || marks.has(id) || pruned.has(id)) continue;
      if (merged.wanted.has(id) || merged.kept.has(id) || !permits(policy, id)) continue;
      const reason = merged.removals.get(id) ?? reasons.ExclusiveKeyPruned;
      pruned.add(id);
      draft.changes.push({ id, capability, rule: "", before: value, action: "remove", reason });
    }
  }
}

function listUnrecorded(draft: Draft): void {
  const { node, merged, marks } = draft;
  const planned = new Set(draft.changes.map(({ id }) => id));
  for (const { id } of standingMarks(node)) {
    if (marks.has(id) || planned.has(id) || merged.wanted.has(id) || merged.kept.has(id)) continue;
    for (const [capability, policy] of merged.policies) {
      if (!holdsMark(policy.declared, id)) continue;
      const key = parseMarkId(id)?.key ?? id;
      const message = `${capability} could have set it but has no record of it; \`berth clean --key ${key}\` removes it`;
      draft.findings.push({ reason: reasons.Unrecorded, severity: "info", subject: id, message });
    }
  }
}

function finish(draft: Draft, base: MarkRecord | undefined): NodePlan {
  const { node, stays, findings } = draft;
  const changes = draft.changes.sort((a, b) => (a.id < b.id ? -1 : 1));
  const whole = buildPatch(node, base, changes);
  const full = exceedsAnnotations(node, whole);
  if (full) findings.push(fullFinding);
  const possible = full ? changes.filter((change) => !growsAnnotations(change)) : changes;
  const smaller = full ? buildPatch(node, base, possible) : whole;
  const patch = full && exceedsAnnotations(node, smaller) ? undefined : smaller;
  const lost = base !== undefined && base.marks.size > 0 && recordOf(node).state === "absent";
  if (lost && patch?.metadata.annotations !== undefined) {
    const reason = reasons.RecordRestored;
    possible.push({ id: RECORD_ID, action: "record", capability: "", rule: "", reason });
  }
  // If both the record and a mark are gone, the entry of the mark needs no write.
  const made = patch === undefined ? [] : possible;
  return { node, changes: made, stays, findings, ...(base && { base }), ...(patch && { patch }) };
}

/** True when the change makes the record or another annotation longer. */
function growsAnnotations(change: Change): boolean {
  if (change.entry !== undefined && change.entry !== null) return true;
  return change.after !== undefined && parseMarkId(change.id)?.kind === "annotation";
}

const RECORD_ID = annotationId(MARKS_ANNOTATION);

const deletingFinding: Finding = {
  reason: reasons.NodeDeleting,
  severity: "info",
  subject: "node",
  message: "the node is being deleted, so Berth leaves it alone",
};

const fullFinding: Finding = {
  reason: reasons.AnnotationsFull,
  severity: "warning",
  subject: RECORD_ID,
  message: "there is no room to record more marks on this node, so no more are set",
};

function unreadableFinding(problem: string): Finding {
  const message =
    `${problem}: marks are still set, but none is removed from this node; ` +
    `remove the annotation ${MARKS_ANNOTATION} to begin a new record`;
  return { reason: reasons.RecordUnreadable, severity: "warning", subject: RECORD_ID, message };
}
