import type { Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { parseMarkId, standingMarks, standingValue } from "./mark.ts";
import { buildPatch } from "./patch.ts";
import type { Change, NodePlan, StayingMark } from "./plan.ts";
import { recordOf } from "./record.ts";
import { isProtectedKey } from "./validate.ts";

export interface CleanInput {
  readonly node: Node;
  readonly installation: string;
  /**
   * Leftovers without a record, each a mark id or a key (`accelerators/edgetpu`: that label, annotation, and taint
   * with any effect). Removed whoever set them, except what another installation has recorded.
   */
  readonly keys?: readonly string[];
}

/**
 * What `berth clean` takes off one node: every mark recorded by this installation, with its record, in one patch.
 *
 * Guarantees: marks of other installations stay. A recorded key under `kubernetes.io` or `k8s.io` stays unless it is
 * named, so that a forged record removes nothing there. An unreadable record removes nothing but what is named.
 */
export function planClean({ node, installation, keys = [] }: CleanInput): NodePlan {
  const read = recordOf(node);
  const changes: Change[] = [];
  const stays: StayingMark[] = [];
  const marks = read.state === "read" ? read.record.marks : new Map<never, never>();
  const named = new Set(keys);
  const isNamed = (id: string): boolean => named.has(id) || named.has(parseMarkId(id)?.key ?? id);
  for (const [id, recorded] of marks) {
    const { capability, rule, by } = recorded;
    const isSafe = !isProtectedKey(parseMarkId(id)?.key ?? "") || isNamed(id);
    if (by !== installation) stays.push({ id, recorded, reason: reasons.OtherInstallation });
    else if (!isSafe) stays.push({ id, recorded, reason: reasons.ProtectedKey });
    else {
      const before = standingValue(node, id);
      const change = { id, capability, rule, entry: null, reason: reasons.Cleaned };
      changes.push(
        before === undefined ? { ...change, action: "record" } : { ...change, action: "remove", before },
      );
    }
  }
  for (const { id, value } of standingMarks(node)) {
    if (!isNamed(id) || marks.has(id)) continue;
    const reason = reasons.CleanedByKey;
    changes.push({ id, action: "remove", capability: "", rule: "", before: value, reason });
  }
  changes.sort((a, b) => (a.id < b.id ? -1 : 1));
  const base = read.state === "read" ? read.record : undefined;
  const patch = node.metadata?.deletionTimestamp === undefined ? buildPatch(node, base, changes) : undefined;
  const result = { node, changes: patch === undefined ? [] : changes, stays, findings: [] };
  return { ...result, ...(base && { base }), ...(patch && { patch }) };
}
