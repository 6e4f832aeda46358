import { type Node, nodes } from "@berth/kube";
import { type EventInput, type MetricsRegistry, referenceTo } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { Finding } from "./capability.ts";
import type { Change } from "./change.ts";
import { parseMarkId } from "./mark.ts";
import type { NodeMemory } from "./memory.ts";

/** Receives Events. The `EventRecorder` of the runtime implements it. */
export interface EventSink {
  record(event: EventInput): void;
}

/** The result of a patch. `gone`: the node was deleted before the patch. */
export type WriteResult = "written" | "conflict" | "refused" | "gone" | "failed";

/** The Events and metrics of the node writer. */
export interface NodeReport {
  /** Reports the findings of a pass. A warning is reported once while it lasts. */
  findings(node: Node, memory: NodeMemory, findings: readonly Finding[]): void;
  written(node: Node, changes: readonly Change[]): void;
  write(result: WriteResult): void;
}

/** Skips an absent sink. No metric has a label whose number of values grows with the cluster. */
export function createNodeReport(
  events: EventSink | undefined,
  metrics: MetricsRegistry | undefined,
): NodeReport {
  const writes = metrics?.counter<"result">({
    name: "berth_node_writes_total",
    help: "Patches of Nodes by outcome: written, conflict, refused, gone, failed.",
    labels: ["result"],
  });
  const changed = metrics?.counter<"capability" | "action" | "reason">({
    name: "berth_mark_changes_total",
    help: "Marks (labels, annotations, taints, unschedulable) changed on Nodes.",
    labels: ["capability", "action", "reason"],
  });
  const found = metrics?.counter<"reason">({
    name: "berth_node_findings_total",
    help: "Warnings about Nodes, each counted when it appears.",
    labels: ["reason"],
  });
  return {
    findings(node, memory, findings) {
      const standing = new Set<string>();
      for (const finding of findings) {
        if (finding.severity !== "warning") continue;
        const name = `${finding.reason} ${finding.subject}`;
        if (!memory.reported.has(name) && !standing.has(name)) {
          found?.inc({ reason: finding.reason });
          events?.record(findingEvent(node, finding));
        }
        standing.add(name);
      }
      if (standing.size > 0 || memory.reported.size > 0) memory.reported = standing;
    },
    written(node, changes) {
      for (const change of changes) {
        const { capability, action, reason } = change;
        changed?.inc({ capability, action, reason });
        if (deservesEvent(change)) events?.record(changeEvent(node, change));
      }
    },
    write: (result) => writes?.inc({ result }),
  };
}

/**
 * True for removals and replacements. Setting a mark is frequent and visible on the node, so it needs no Event without
 * `announce`. Removed annotations need none because they are only notes of Berth.
 */
function deservesEvent({ id, action, reason, announce }: Change): boolean {
  if (announce === "never") return false;
  if (announce === "always" && action !== "record") return true;
  if (action === "remove") return parseMarkId(id)?.kind !== "annotation";
  return action === "overwrite" || reason === reasons.RecordRestored;
}

function findingEvent(node: Node, { reason, subject, message }: Finding): EventInput {
  const note = `${subject}: ${message}`;
  return { regarding: referenceTo(nodes, node), reason, note, type: "Warning", action: "KeepMarks" };
}

function changeEvent(node: Node, { id, action, rule, before, after, reason }: Change): EventInput {
  const from = before === undefined ? "" : ` from ${JSON.stringify(before)}`;
  const to = after === undefined ? "" : ` to ${JSON.stringify(after)}`;
  const by = rule === "" ? "" : ` (${rule})`;
  const what = action === "remove" ? "removed" : action === "adopt" ? "stands" : `set${from}${to}`;
  const note = action === "record" ? "written again from the last one seen" : `${id} ${what}${by}`;
  return { regarding: referenceTo(nodes, node), reason, note, type: "Normal", action: "SetMarks" };
}
