import type { Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import type { Change } from "./change.ts";
import { holdsPods, type MarkId, parseMarkId, standingMarks, standingValue } from "./mark.ts";
import { buildPatch } from "./patch.ts";
import type { NodePlan, StayingMark } from "./plan.ts";
import { recordOf } from "./record.ts";
import { isProtectedKey } from "./validate.ts";

/** Knowledge of a capability about its marks that records do not contain. */
export interface Unrecorded {
  readonly capability: string;
  /** True when the capability could have set the mark at this place of a protected domain. */
  readonly isOurs: (id: MarkId) => boolean;
  /** Marks that Berth's admission has set on the node and that have no record yet, with the rule of each. */
  readonly admitted: (node: Node) => ReadonlyMap<MarkId, string>;
}

export interface CleanInput {
  readonly node: Node;
  readonly installation: string;
  /**
   * Leftovers without a record, each a mark id or a key (`accelerators/edgetpu`: that label, annotation, and taint
   * with any effect). Berth removes them even if it did not set them, except marks that another installation recorded.
   */
  readonly keys?: readonly string[];
  /** Only marks of this capability, as recorded: `labels`. Default all. */
  readonly capability?: string | undefined;
  /** Taints, and `unschedulable`, that this installation has declared, now or earlier. Berth trusts records of them. */
  readonly declared?: ReadonlySet<MarkId>;
  /** Also trust records of other taints, and of `unschedulable`. Default false. */
  readonly recorded?: boolean;
  /** For each capability that has such marks. Default: none. */
  readonly unrecorded?: readonly Unrecorded[];
}

/**
 * Plans `berth clean` for one node, in one patch: it removes every mark that this installation recorded, the record,
 * and marks that admission set.
 *
 * Guarantees: marks of other installations stay. A kubelet can forge its record, so some marks stay unless the user
 * names them. These are taints and cordons at undeclared places, unless `recorded` is set, and keys under
 * `kubernetes.io` or `k8s.io` that no capability could have set. With an unreadable record only named marks go.
 */
export function planClean(input: CleanInput): NodePlan {
  const { node, installation, keys = [], unrecorded = [], capability: only, declared } = input;
  const read = recordOf(node);
  const changes: Change[] = [];
  const stays: StayingMark[] = [];
  const marks = read.state === "read" ? read.record.marks : new Map<never, never>();
  const named = new Set(keys);
  const isNamed = (id: string): boolean => named.has(id) || named.has(parseMarkId(id)?.key ?? id);
  for (const [id, recorded] of marks) {
    const { capability, rule, by } = recorded;
    if (only !== undefined && capability !== only && !isNamed(id)) continue;
    const before = standingValue(node, id);
    const isBelieved = isNamed(id) || declared?.has(id) === true;
    const isUndeclared = !isBelieved && holdsPods(id) && before !== undefined && input.recorded !== true;
    const isSafe =
      isBelieved ||
      !isProtectedKey(parseMarkId(id)?.key ?? "") ||
      unrecorded.some((it) => it.capability === capability && it.isOurs(id));
    if (by !== installation) stays.push({ id, recorded, reason: reasons.OtherInstallation });
    else if (isUndeclared) stays.push({ id, recorded, reason: reasons.PlaceNotDeclared });
    else if (!isSafe) stays.push({ id, recorded, reason: reasons.ProtectedKey });
    else {
      const change = { id, capability, rule, entry: null, reason: reasons.Cleaned };
      changes.push(
        before === undefined ? { ...change, action: "record" } : { ...change, action: "remove", before },
      );
    }
  }
  const byAdmission = new Map<MarkId, Pick<Change, "capability" | "rule">>();
  for (const { capability, admitted } of read.state === "unreadable" ? [] : unrecorded)
    if (only === undefined || only === capability)
      for (const [id, rule] of admitted(node)) byAdmission.set(id, { capability, rule });
  for (const { id, value } of standingMarks(node)) {
    if (marks.has(id)) continue;
    const ours = byAdmission.get(id);
    const removal = { id, action: "remove", before: value } as const;
    if (isNamed(id)) changes.push({ ...removal, capability: "", rule: "", reason: reasons.CleanedByKey });
    else if (ours !== undefined) changes.push({ ...removal, ...ours, reason: reasons.Cleaned });
  }
  changes.sort((a, b) => (a.id < b.id ? -1 : 1));
  const base = read.state === "read" ? read.record : undefined;
  const patch = node.metadata?.deletionTimestamp === undefined ? buildPatch(node, base, changes) : undefined;
  const made = patch === undefined ? [] : changes;
  return { node, changes: made, stays, findings: [], ...(base && { base }), ...(patch && { patch }) };
}
