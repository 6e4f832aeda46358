/** Can the agent run where it is needed, and only there? Pure. */
import type { DaemonSet, Node } from "@berth/kube";
import { type Reason, reasons } from "../../api/reasons.ts";
import { expectation, whyElsewhere } from "../../node/daemonset-placement.ts";
import type { Footprint } from "../footprint.ts";
import { staysAway } from "./selector.ts";

/** The fields of a footprint that the agent checks read. */
export type CheckedFootprint = Pick<Footprint, "label"> & {
  readonly agent: NonNullable<Footprint["agent"]>;
};

export interface AgentProblem {
  readonly reason: Reason;
  readonly message: string;
}

/** A node that needs the agent, and on which the agent cannot run. */
export interface UnservedNode extends AgentProblem {
  readonly node: string;
}

export interface AgentVerdict {
  /** In the order of the nodes. Contains all nodes when the DaemonSet does not exist. */
  readonly unserved: readonly UnservedNode[];
  /** Problems of the DaemonSet itself, the worst first. Each reason occurs at most once. */
  readonly problems: readonly AgentProblem[];
}

/** Does Berth check the agent and report on it? With `Off`, it does not. */
export function isAgentChecked({ agent }: Pick<Footprint, "agent">): boolean {
  return agent !== undefined && agent.nodeSelector !== "Off";
}

/** Prefix that only the priority classes of Kubernetes may have (`SystemPriorityClassPrefix`, pkg/apis/scheduling). */
const SYSTEM_PRIORITY = "system-";

/**
 * Checks an agent against all nodes that need it.
 * @param daemonSet `null`: no DaemonSet has this name.
 * @param nodes nodes that need the agent, with or without the label.
 */
export function checkAgent(
  footprint: CheckedFootprint,
  daemonSet: DaemonSet | null,
  nodes: readonly Node[],
): AgentVerdict {
  const unserved = nodes.flatMap((node): readonly UnservedNode[] => {
    const problem = agentProblemOn(footprint, daemonSet, node);
    return problem === undefined ? [] : [{ node: node.metadata?.name ?? "", ...problem }];
  });
  return { unserved, problems: agentProblems(footprint, daemonSet) };
}

/**
 * Why the agent cannot run on a node that needs it, by the rules of the DaemonSet controller. Assumes that the node has
 * the label. Ignores temporary taints: those of a starting node, and those that report a current fault of the node.
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
  // The DaemonSet may ask for another label on purpose, so the message also names the label of this footprint.
  const isOther =
    whyElsewhere(daemonSet, labelled) !== undefined && !staysAway(daemonSet.spec?.template.spec, footprint);
  const but = isOther ? `; this footprint sets ${key}=${value}` : "";
  return {
    reason: reasons.AgentUnschedulable,
    message: `the DaemonSet ${idOf(footprint)} cannot run on the node ${name}: ${expected.why}${but}`,
  };
}

/** What is wrong with the DaemonSet itself. */
export function agentProblems(
  footprint: CheckedFootprint,
  daemonSet: DaemonSet | null,
): readonly AgentProblem[] {
  if (isMissing(daemonSet)) return [missing(footprint)];
  const spec = daemonSet.spec?.template.spec;
  const id = idOf(footprint);
  const problems: AgentProblem[] = [];
  if (!staysAway(spec, footprint)) {
    const { key, value } = footprint.label;
    const message = `the DaemonSet ${id} does not ask for ${key}=${value}, so it runs on nodes that do not need it`;
    problems.push({ reason: reasons.AgentEverywhere, message });
  }
  if (spec?.priorityClassName?.startsWith(SYSTEM_PRIORITY) !== true) {
    const message = `the DaemonSet ${id} has no priority class system-node-critical: on a full node it may find no room, and autoscalers do not reserve any for it`;
    problems.push({ reason: reasons.AgentPriority, message });
  }
  return problems;
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
