import type { Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { contractMarks, isStartupPlace } from "../startup-gate/compile.ts";
import { originalGate } from "../startup-gate/document.ts";
import { GATES, type Gates } from "../startup-gate/gate.ts";
import { selects } from "../startup-gate/selection.ts";
import type { Change } from "./change.ts";
import { holdsPods, type MarkId, parseMarkId, standingMarks, standingValue, taintId } from "./mark.ts";
import { holdsMark } from "./mark-set.ts";
import { buildPatch } from "./patch.ts";
import type { NodePlan, StayingMark } from "./plan.ts";
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
  /** Only marks of this capability, as recorded: `labels`, `gates`, `architecture`. Default all. */
  readonly capability?: string | undefined;
  /** Taints, and `unschedulable`, that this installation has declared, now or earlier: there records are believed. */
  readonly declared?: ReadonlySet<MarkId>;
  /** Believe records of other taints, and of `unschedulable`, as well. Default false. */
  readonly recorded?: boolean;
  /** The startup gates that are known: nodes that they select are let go, also such as no record tells of. */
  readonly gates?: Pick<Gates, "gates">;
}

/**
 * What `berth clean` takes off one node: every mark recorded by this installation, with its record, in one patch, and
 * the taints by which admission holds it for a startup gate that selects it.
 *
 * Guarantees: marks of other installations stay. So that a forged record removes nothing, these stay unless they are
 * named: a recorded taint or cordon at a place that is not declared, but for `recorded`, and another key under
 * `kubernetes.io` or `k8s.io` that is not a startup gate's. An unreadable record removes nothing but what is named.
 */
export function planClean(input: CleanInput): NodePlan {
  const { node, installation, keys = [], gates = { gates: [] }, capability: only, declared } = input;
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
      (capability === GATES && isGatePlace(id, gates));
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
  const isGates = read.state !== "unreadable" && (only === undefined || only === GATES);
  const byAdmission = isGates ? admittedTaints(node, gates) : new Map<MarkId, string>();
  for (const { id, value } of standingMarks(node)) {
    if (marks.has(id)) continue;
    const rule = byAdmission.get(id);
    const removal = { id, action: "remove", before: value } as const;
    if (isNamed(id)) changes.push({ ...removal, capability: "", rule: "", reason: reasons.CleanedByKey });
    else if (rule !== undefined)
      changes.push({ ...removal, capability: GATES, rule, reason: reasons.Cleaned });
  }
  changes.sort((a, b) => (a.id < b.id ? -1 : 1));
  const base = read.state === "read" ? read.record : undefined;
  const patch = node.metadata?.deletionTimestamp === undefined ? buildPatch(node, base, changes) : undefined;
  const result = { node, changes: patch === undefined ? [] : changes, stays, findings: [] };
  return { ...result, ...(base && { base }), ...(patch && { patch }) };
}

/** Could a gate have set what stands there: a taint or an annotation with a key that gates have? */
function isGatePlace(id: MarkId, { gates }: Pick<Gates, "gates">): boolean {
  const place = parseMarkId(id);
  if (place?.kind !== "taint" && place?.kind !== "annotation") return false;
  return (
    holdsMark(contractMarks, id) ||
    isStartupPlace(id) ||
    gates.some((gate) => [gate.taintId, gate.stateId, gate.completedId].includes(id))
  );
}

/** By gates that select the node, and by the contract where any does: put on by admission, recorded by nobody yet. */
function admittedTaints(node: Node, { gates }: Pick<Gates, "gates">): ReadonlyMap<MarkId, string> {
  const taints = new Map<MarkId, string>();
  const { key, effect } = originalGate.taint;
  for (const gate of gates.filter((it) => selects(it, node))) {
    const original = taintId(key, effect);
    if (!taints.has(original)) taints.set(original, gate.rule);
    taints.set(gate.taintId, gate.rule);
  }
  return taints;
}
