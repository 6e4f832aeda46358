/** Can the agent run where it is needed, and only there? Pure. */
import type { DaemonSet, Node } from "@berth/kube";
import { type Reason, reasons } from "../../api/reasons.ts";
import { expectation, whyElsewhere } from "../../node/daemonset-placement.ts";
import { ownValue } from "../../node/mark.ts";
import { IDLE_VALUE } from "../complete.ts";
import type { Footprint } from "../footprint.ts";
import { leftoverKey } from "./former-label.ts";
import { type AgentTarget, staysAway } from "./selector.ts";

/** What an agent is checked by. */
export type CheckedFootprint = AgentTarget &
  Pick<Footprint, "rule"> & { readonly agent: NonNullable<Footprint["agent"]> };

export interface AgentProblem {
  readonly reason: Reason;
  readonly message: string;
}

/** A node that needs the agent, where it cannot run. */
export interface UnservedNode extends AgentProblem {
  readonly node: string;
}

export interface AgentVerdict {
  /** In the order of the nodes. All of them when there is no such DaemonSet. */
  readonly unserved: readonly UnservedNode[];
  /** What is wrong with the DaemonSet itself, the worst first; at most one of each reason. */
  readonly problems: readonly AgentProblem[];
}

/** Is anything said of the agent? `Off` leaves it to others. */
export function isAgentChecked({ agent }: Pick<Footprint, "agent">): boolean {
  return agent !== undefined && agent.nodeSelector !== "Off";
}

/** The classes that Kubernetes makes itself begin with it, and no other may (`SystemPriorityClassPrefix`, pkg/apis/scheduling). */
const SYSTEM_PRIORITY = "system-";

/** Where a DaemonSet runs as it stands, of the nodes that were looked at. */
export interface AgentLanding {
  readonly isAnywhere: boolean;
  /** One that is known not to need it. */
  readonly needless?: string;
}

/** Looks at one more node. @param isIdle is it known that it does not need the agent? */
export function landingOn(
  landing: AgentLanding | undefined,
  daemonSet: DaemonSet | null,
  { node, isIdle }: { readonly node: Node; readonly isIdle: boolean },
): AgentLanding {
  const before = landing ?? { isAnywhere: false };
  if (before.needless !== undefined || isMissing(daemonSet) || (before.isAnywhere && !isIdle)) return before;
  if (expectation(daemonSet, node, []).state === "notExpected") return before;
  return { isAnywhere: true, ...(isIdle && { needless: node.metadata?.name ?? "" }) };
}

/**
 * Checks an agent against all nodes that need it.
 * @param daemonSet `null`: there is none of this name.
 * @param nodes those that need the agent, labelled or not.
 * @param landing on all nodes; asked only of a DaemonSet that does not ask for the label. Absent where nobody has looked.
 */
export function checkAgent(
  footprint: CheckedFootprint,
  daemonSet: DaemonSet | null,
  nodes: readonly Node[],
  landing?: () => AgentLanding | undefined,
): AgentVerdict {
  const unserved: UnservedNode[] = [];
  const problems = agentProblems(footprint, daemonSet, landing);
  const former = isMissing(daemonSet) ? undefined : leftoverKey(footprint, daemonSet, nodes);
  for (const node of nodes) {
    const problem = agentProblemOn(footprint, daemonSet, node);
    if (problem === undefined) continue;
    // Of two things that are wrong the first alone is told: with the node also what is to be done.
    const { reason, message } = problem;
    const remedy = former === undefined || hasLabel(node, former) ? "" : `; ${remedyOf(footprint, former)}`;
    unserved.push({ node: node.metadata?.name ?? "", reason, message: `${message}${remedy}` });
  }
  if (former === undefined) return { unserved, problems };
  const message = `the DaemonSet ${idOf(footprint)} still asks for ${former}, which this footprint no longer sets; ${remedyOf(footprint, former)}`;
  return { unserved, problems: [{ reason: reasons.AgentUnschedulable, message }, ...problems] };
}

function hasLabel({ metadata }: Node, key: string): boolean {
  return ownValue(metadata?.labels, key) !== undefined;
}

function remedyOf(footprint: CheckedFootprint, former: string): string {
  return footprint.agent.nodeSelector === "Manage"
    ? `Berth has not put it there: take ${former} off its node selector`
    : `take ${former} off its node selector, and have it ask for ${askedText(footprint)}`;
}

/**
 * Why the agent cannot run on a node that needs it, by the rules of the DaemonSet controller, once the label stands there.
 * Taints that come off while a node starts, or say that something is wrong with it just now, are no reason.
 */
export function agentProblemOn(
  footprint: CheckedFootprint,
  daemonSet: DaemonSet | null,
  node: Node,
): AgentProblem | undefined {
  if (isMissing(daemonSet)) return missing(footprint);
  const { key, value } = footprint.label;
  const labelled: Node = {
    ...node,
    metadata: { ...node.metadata, labels: { ...node.metadata?.labels, [key]: value } },
  };
  const expected = expectation(daemonSet, labelled, []);
  if (expected.state !== "notExpected") return undefined;
  const name = node.metadata?.name ?? "";
  // One that asks for another label than this may well mean it.
  const isOther =
    whyElsewhere(daemonSet, labelled) !== undefined && !staysAway(daemonSet.spec?.template.spec, footprint);
  const but = isOther ? `; this footprint sets ${key}=${value}` : "";
  return {
    reason: reasons.AgentUnschedulable,
    message: `the DaemonSet ${idOf(footprint)} cannot run on the node ${name}: ${expected.why}${but}`,
  };
}

/** What is wrong with the DaemonSet itself. @param landing see `checkAgent`. */
export function agentProblems(
  footprint: CheckedFootprint,
  daemonSet: DaemonSet | null,
  landing?: () => AgentLanding | undefined,
): readonly AgentProblem[] {
  if (isMissing(daemonSet)) return [missing(footprint)];
  const spec = daemonSet.spec?.template.spec;
  const id = idOf(footprint);
  const problems: AgentProblem[] = [];
  if (!staysAway(spec, footprint)) problems.push(unasked(footprint, landing?.()));
  if (spec?.priorityClassName?.startsWith(SYSTEM_PRIORITY) !== true) {
    const message = `the DaemonSet ${id} has no priority class system-node-critical: on a full node it may find no room, and autoscalers do not reserve any for it`;
    problems.push({ reason: reasons.AgentPriority, message });
  }
  return problems;
}

/** It does not ask for the label. Where that brings it, other things that it asks for decide. */
function unasked(footprint: CheckedFootprint, landing: AgentLanding | undefined): AgentProblem {
  const what = `the DaemonSet ${idOf(footprint)} does not ask for ${askedText(footprint)}`;
  if (landing?.isAnywhere === false)
    return { reason: reasons.AgentUnschedulable, message: `${what}, and what it asks for is on no node` };
  const reason = reasons.AgentEverywhere;
  if (landing === undefined) return { reason, message: `${what}, so it runs on nodes that do not need it` };
  return landing.needless === undefined
    ? { reason, message: `${what}; at present it runs on no node without need` }
    : { reason, message: `${what}, so it runs on nodes that do not need it, such as ${landing.needless}` };
}

/** What an agent has to ask for, in words: `ate.dev/atelet=true`. */
export function askedText({ label: { key, value }, placement }: AgentTarget): string {
  return placement === "Lazy" ? `${key}=${value}` : `${key} NotIn [${IDLE_VALUE}]`;
}

function isMissing(daemonSet: DaemonSet | null): daemonSet is null {
  return daemonSet === null || (daemonSet.metadata?.deletionTimestamp ?? "") !== "";
}

function missing(footprint: CheckedFootprint): AgentProblem {
  return { reason: reasons.DaemonSetMissing, message: `there is no DaemonSet ${idOf(footprint)}` };
}

function idOf({ agent }: CheckedFootprint): string {
  return `${agent.namespace}/${agent.name}`;
}
