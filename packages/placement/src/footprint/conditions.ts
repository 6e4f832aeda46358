/** The conditions of a `NodeFootprint`: what is said of one in force, decided as plain data. */
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
  /** Nothing keeps the agent from the nodes that need it, nor brings it to others. */
  agentPlaced: "AgentPlaced",
  /** Deletions of owners wait for their pods; only where it holds owners. */
  ownersHeld: "OwnersHeld",
  /** Pods are made to wait for the agent; only where it has them wait. */
  podsWait: "PodsWait",
  /** Marks stand that nobody needs and that somebody else has set; only where these are reported. */
  foreignMarks: "ForeignMarks",
} as const;

export type FootprintJudgement = DocumentResult;

/** What is known of a footprint in force. What is `undefined` cannot be told yet: what was said before stays. */
export interface FootprintProgress {
  readonly footprint: Footprint;
  /** `undefined` until every node has been looked at. */
  readonly counts: FootprintCounts | undefined;
  /** For how long there has been a node that is not known, ms. Default 0. */
  readonly unknownMs?: number;
  /** What cannot be read, so that nodes are not known; absent while nothing is wrong. */
  readonly unread?: string | undefined;
  readonly agent: AgentVerdict | undefined;
  /** Nodes that need the agent and have a ready pod of it. */
  readonly agentReady: number | undefined;
  /** The longest first. */
  readonly held: readonly HeldEntry[];
  /** What is known of the resource of its owners. Default `Read`. */
  readonly owners?: "Unread" | "Absent" | "Read";
  /** What keeps its hold from being kept; absent while nothing is wrong. */
  readonly holdProblem?: string | undefined;
  /** Whether its pods are made to wait. */
  readonly wait?: FootprintJudgement | undefined;
}

/**
 * A node is not known for a moment whenever a pod with a new owner comes. It is said of the agent once a node has been so
 * for longer, or it is known what is wrong, ms.
 */
export const SETTLING_MS = 10_000;

/** All that can be told of a footprint beside that it is in force, and of what there is nothing to say any more. */
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
  { reason, message }: Pick<FootprintJudgement, "reason" | "message">,
): DesiredCondition {
  const status = holds === "Unknown" ? holds : holds ? "True" : "False";
  return { type, status, reason, message };
}

/** Of which nodes it is not known whether they need the agent, and why; `undefined` while there is none to tell of. */
export function unknownNodes({ counts, unread, unknownMs = 0 }: FootprintProgress): string | undefined {
  if (!hasUnknown(counts) || (unread === undefined && unknownMs < SETTLING_MS)) return undefined;
  const { unknown = 0 } = counts ?? {};
  const why = unread === undefined ? "" : `: ${unread}`;
  return `it is not known yet of ${nodesText(unknown)} whether they need the agent${why}`;
}

/** Then nothing that is counted of the nodes that need the agent is all there is. */
export function hasUnknown(counts: FootprintCounts | undefined): boolean {
  return counts !== undefined && counts.unknown > 0;
}

/** What keeps it from a node comes before what is not known, and that before what is wrong with it in general. */
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

/** A DaemonSet that is not there is missing on every node. */
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
    // What the server said to a write stands in what is held already.
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
    return toCondition(type, false, { reason: reasons.NoForeignMarks, message: "none stands" });
  const message = `they stand on ${nodesText(foreign)}; an Event on each tells which`;
  return toCondition(type, true, { reason: reasons.ForeignFootprintMark, message });
}

function nodesText(count: number): string {
  return count === 1 ? "one node" : `${count} nodes`;
}

/** Is it as it should be? */
export function isGoodCondition({ type, status }: Pick<Condition, "type" | "status">): boolean {
  const isBad = type === footprintConditions.ownersHeld || type === footprintConditions.foreignMarks;
  return status === (isBad ? "False" : "True");
}

/** Something is wrong, or right again. Of owners that wait those who are stuck are told of, on themselves. */
export function isNews(condition: DesiredCondition, present: Condition | undefined): boolean {
  if (condition.type === footprintConditions.ownersHeld)
    return condition.status === "Unknown" || present?.status === "Unknown";
  return !isGoodCondition(condition) || (present !== undefined && !isGoodCondition(present));
}
