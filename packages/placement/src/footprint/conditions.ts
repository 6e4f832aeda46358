/** Decides the conditions of a `NodeFootprint` in force, as plain data. */
import type { DocumentResult } from "@berth/host";
import type { Condition } from "@berth/kube";
import type { DesiredCondition } from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import { type AgentVerdict, isAgentChecked } from "./agent/check.ts";
import type { Footprint } from "./footprint.ts";
import type { HeldEntry } from "./hold/held-owners.ts";
import { resourceName } from "./hold/held-resource.ts";
import type { FootprintCounts } from "./tally.ts";

export const footprintConditions = {
  /** The footprint is in force as it is written. */
  ready: "Ready",
  /** Nothing stops the agent on the nodes that need it, and it runs on no other node. */
  agentPlaced: "AgentPlaced",
  /** The deletion of some owner waits for its pods. Set only when the footprint holds owners. */
  ownersHeld: "OwnersHeld",
  /** Berth makes new pods wait for the agent. Set only when the footprint asks for that. */
  podsWait: "PodsWait",
  /** Some nodes have marks that no pod needs and Berth did not set. Set only with `foreign: Report`. */
  foreignMarks: "ForeignMarks",
} as const;

/** What Berth knows of a footprint in force. `undefined` means not known yet: the status keeps its earlier value. */
export interface FootprintProgress {
  readonly footprint: Footprint;
  /** `undefined` until Berth has examined every node. */
  readonly counts: FootprintCounts | undefined;
  /** For how long some node has been unknown, ms. Default 0. */
  readonly unknownMs?: number;
  /** What Berth cannot read, so that nodes are unknown; absent without such a problem. */
  readonly unread?: string | undefined;
  readonly agent: AgentVerdict | undefined;
  /** Nodes that need the agent and have a ready pod of it. */
  readonly agentReady: number | undefined;
  /** Owners whose deletion waits, the longest first. */
  readonly held: readonly HeldEntry[];
  /** Whether Berth has read the resource of its owners. Default `Read`. */
  readonly owners?: "Unread" | "Absent" | "Read";
  /** Why Berth cannot keep the hold; absent without such a problem. */
  readonly holdProblem?: string | undefined;
  /** Whether the webhook makes its pods wait. */
  readonly wait?: DocumentResult | undefined;
}

/**
 * How long a node must be unknown before a condition reports it, ms. A node is unknown for a moment whenever a pod with
 * a new owner appears. If Berth knows the reason, it reports the node at once.
 */
export const SETTLING_MS = 10_000;

/** All conditions of a footprint except `Ready`. `stale`: types of conditions to remove. */
export function conditionsOf(progress: FootprintProgress | undefined): {
  readonly desired: readonly DesiredCondition[];
  readonly stale: readonly string[];
} {
  const { ready: _, ...others } = footprintConditions;
  const { agentPlaced, ownersHeld, podsWait, foreignMarks } = others;
  const told = new Map<string, DesiredCondition | undefined>();
  if (progress !== undefined) {
    const { footprint, counts, wait } = progress;
    if (isAgentChecked(footprint)) told.set(agentPlaced, agentCondition(progress));
    if (footprint.hold !== undefined) told.set(ownersHeld, heldCondition(progress));
    if (footprint.wait !== undefined) told.set(podsWait, wait && toCondition(podsWait, wait.ready, wait));
    if (footprint.foreign === "Report") told.set(foreignMarks, counts && foreignCondition(counts));
  }
  return {
    desired: [...told.values()].filter((it) => it !== undefined),
    stale: Object.values(others).filter((type) => !told.has(type)),
  };
}

export function toCondition(
  type: string,
  holds: boolean | "Unknown",
  { reason, message }: Pick<DocumentResult, "reason" | "message">,
): DesiredCondition {
  const status = holds === "Unknown" ? holds : holds ? "True" : "False";
  return { type, status, reason, message };
}

/** A message with the number of unknown nodes and the reason; `undefined` when there is nothing to report. */
export function unknownNodes({ counts, unread, unknownMs = 0 }: FootprintProgress): string | undefined {
  if (!hasUnknown(counts) || (unread === undefined && unknownMs < SETTLING_MS)) return undefined;
  const { unknown = 0 } = counts ?? {};
  const why = unread === undefined ? "" : `: ${unread}`;
  return `it is not known yet of ${nodesText(unknown)} whether they need the agent${why}`;
}

/** If true, the counts of nodes that need the agent may be too low. */
export function hasUnknown(counts: FootprintCounts | undefined): boolean {
  return counts !== undefined && counts.unknown > 0;
}

/** Order: nodes where the agent cannot run, then unknown nodes, then problems of the DaemonSet itself. */
function agentCondition(progress: FootprintProgress): DesiredCondition | undefined {
  const { agent, agentReady, counts } = progress;
  const { agentPlaced: type } = footprintConditions;
  if (agent === undefined) return undefined;
  const { unserved, problems } = agent;
  const [first, ...others] = unserved;
  if (first !== undefined) {
    const message = `${first.message}${restOf(first.reason, others)}`;
    return toCondition(type, false, { reason: first.reason, message });
  }
  const unknown = unknownNodes(progress);
  if (unknown !== undefined)
    return toCondition(type, "Unknown", { reason: reasons.FootprintUnknown, message: unknown });
  if (hasUnknown(counts)) return undefined;
  const problem = problems.find(({ reason }) => reason !== reasons.AgentPriority);
  if (problem !== undefined) return toCondition(type, false, problem);
  const [advice] = problems;
  if (advice !== undefined) return toCondition(type, true, advice);
  const of =
    counts === undefined || agentReady === undefined ? "" : `: ready on ${agentReady} of ${counts.needed}`;
  const message = `nothing keeps the agent from the nodes that need it${of}`;
  return toCondition(type, true, { reason: reasons.AgentPlaced, message });
}

/** A missing DaemonSet is missing on every node, so its message lists no nodes. */
function restOf(reason: Reason, others: AgentVerdict["unserved"]): string {
  const [next] = others;
  if (next === undefined || reason === reasons.DaemonSetMissing) return "";
  return others.length === 1
    ? `; nor on one more node, ${next.node}`
    : `; nor on ${others.length} more nodes, such as ${next.node}`;
}

function heldCondition(progress: FootprintProgress): DesiredCondition | undefined {
  const { held, owners = "Read", holdProblem, footprint } = progress;
  const resource = footprint.hold === undefined ? "" : resourceName(footprint.hold.resource);
  const { ownersHeld: type } = footprintConditions;
  const [first, ...others] = held;
  if (first !== undefined) {
    const more = others.length > 0 ? `; and ${others.length} more owners, the next ${others[0]?.name}` : "";
    // The message of a held owner may already contain the refusal of the API server.
    const why = holdProblem === undefined || first.message.includes(holdProblem) ? "" : `; ${holdProblem}`;
    const message = `the deletion of ${first.name} waits for ${first.message}${more}${why}`;
    return toCondition(type, true, { reason: reasons.OwnerHeld, message });
  }
  if (holdProblem !== undefined) {
    const message = `the hold of ${resource} cannot be kept: ${holdProblem}`;
    return toCondition(type, "Unknown", { reason: reasons.FootprintHindered, message });
  }
  if (owners === "Unread") return undefined;
  const message =
    owners === "Absent" ? `${resource} are not there: none is held` : "no deletion of an owner waits";
  return toCondition(type, false, { reason: reasons.NoOwnerHeld, message });
}

function foreignCondition({ foreign }: FootprintCounts): DesiredCondition {
  const { foreignMarks: type } = footprintConditions;
  if (foreign === 0)
    return toCondition(type, false, { reason: reasons.NoForeignMarks, message: "Berth found none" });
  const message = `they are on ${nodesText(foreign)}; an Event on each node names them`;
  return toCondition(type, true, { reason: reasons.ForeignFootprintMark, message });
}

function nodesText(count: number): string {
  return count === 1 ? "one node" : `${count} nodes`;
}

/** Does the condition report that all is well? */
export function isGoodCondition({ type, status }: Pick<Condition, "type" | "status">): boolean {
  const isBad = type === footprintConditions.ownersHeld || type === footprintConditions.foreignMarks;
  return status === (isBad ? "False" : "True");
}

/** Does the condition report a problem, or its end? Waiting owners are no news: a stuck owner gets its own Event. */
export function isNews(condition: DesiredCondition, present: Condition | undefined): boolean {
  if (condition.type === footprintConditions.ownersHeld)
    return condition.status === "Unknown" || present?.status === "Unknown";
  return !isGoodCondition(condition) || (present !== undefined && !isGoodCondition(present));
}
