/** On which nodes pods run. */
import type { Pod } from "@berth/kube";
import type { Change } from "@berth/runtime";

/** Field selector of pods that are still to be scheduled: what the scheduler has placed leaves the watch. */
export const UNSCHEDULED = "spec.nodeName=,status.phase=Pending";

/** Its node, none until it has one: as an index has it. */
export function nodeOf({ spec }: Pod): readonly string[] {
  return spec?.nodeName ? [spec.nodeName] : [];
}

/** The nodes to look at again: its own, and after an update also where it ran before. Each once. */
export function nodesOfChange(change: Change<Pod>): ReadonlySet<string> {
  const before = change.type === "updated" ? nodeOf(change.old) : [];
  return new Set([...nodeOf(change.object), ...before]);
}
