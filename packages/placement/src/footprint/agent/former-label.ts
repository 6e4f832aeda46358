/**
 * Labels that a footprint set before it came to set another, while the DaemonSet of its agent asks for them still: without
 * them the agent would leave its nodes before it can follow. Pure.
 */
import type { DaemonSet, Node } from "@berth/kube";
import { MARKS_ANNOTATION } from "../../api/keys.ts";
import type { NodeView } from "../../node/capability.ts";
import { labelId, type MarkId, ownValue, parseMarkId, standingValue } from "../../node/mark.ts";
import { type RecordedMark, recordOf } from "../../node/record.ts";
import { IDLE_VALUE } from "../complete.ts";
import { FOOTPRINT, type Footprint } from "../footprint.ts";
import { recordedLabel } from "./selector.ts";

/** Whose labels, and whose agent. */
export type Relabelled = Pick<Footprint, "rule" | "label" | "agent">;

/**
 * Those of this node that have to stay while it needs the agent: what the node selector asks for as it stands there.
 * @param daemonSet `undefined` while it is not known: then all but those that say that the node is idle. No agent is there
 * by one of these, and with `Eager` it keeps the agent away. The same while its controller goes by an earlier version: it
 * would end the agent of a node that loses what that one asked for.
 */
export function formerLabels(
  footprint: Relabelled,
  { node, owned }: Pick<NodeView, "node" | "owned">,
  daemonSet: DaemonSet | null | undefined,
): readonly MarkId[] {
  const { agent, label } = footprint;
  if (agent === undefined || agent.nodeSelector === "Off") return [];
  const selector = daemonSet?.spec?.template.spec?.nodeSelector;
  const isUnknown = daemonSet === undefined || (daemonSet !== null && !isObserved(daemonSet));
  const stays = (key: string, value: string | undefined): boolean =>
    value !== undefined && (isUnknown ? value !== IDLE_VALUE : ownValue(selector, key) === value);
  const former: MarkId[] = [];
  for (const [id, mark] of owned) {
    const place = isOf(footprint, mark) ? parseMarkId(id) : undefined;
    if (place?.kind !== "label" || place.key === label.key) continue;
    if (stays(place.key, standingValue(node, id))) former.push(id);
  }
  return former;
}

/** Its controller goes by the node selector as it is now. */
export function isObserved({ metadata, status }: DaemonSet): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0);
}

/**
 * The key of one that nobody here takes out of the node selector: with `Manage` one that Berth has not put there. Told by
 * nodes that keep it.
 */
export function leftoverKey(
  footprint: Relabelled,
  daemonSet: DaemonSet,
  nodes: readonly Node[],
): string | undefined {
  const { agent, label } = footprint;
  const ours = agent?.nodeSelector === "Manage" ? recordedLabel(daemonSet)?.key : undefined;
  const keys = Object.keys(daemonSet.spec?.template.spec?.nodeSelector ?? {});
  return keys
    .filter((key) => key !== label.key && key !== ours)
    .find((key) => nodes.some((node) => isLabelledBy(footprint, node, key)));
}

/** A record is read only where its text names the key: there are as many as nodes, and this is asked often. */
function isLabelledBy(footprint: Relabelled, node: Node, key: string): boolean {
  const id = labelId(key);
  if (ownValue(node.metadata?.annotations, MARKS_ANNOTATION)?.includes(id) !== true) return false;
  const read = recordOf(node);
  return read.state === "read" && isOf(footprint, read.record.marks.get(id));
}

function isOf({ rule }: Relabelled, mark: RecordedMark | undefined): boolean {
  return mark?.capability === FOOTPRINT && mark.rule === rule;
}
