/** What a `NodeFootprint` says about itself: decided as plain data. */
import type { Condition } from "@berth/kube";
import { type DesiredCondition, isSameData, mergeConditions, withoutConditions } from "@berth/runtime";
import type { NodeFootprintStatus } from "../../api/node-footprint.ts";
import { MAX_HOLDS, type NodeFootprint } from "../../api/node-footprint-resource.ts";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { Instant } from "../capability.ts";
import type { StatusDecision } from "../status-reconciler.ts";
import { type AgentVerdict, isAgentChecked } from "./agent-check.ts";
import type { Footprint } from "./footprint.ts";
import type { HeldEntry } from "./held-owners.ts";
import { resourceName } from "./hold-watches.ts";
import type { FootprintCounts } from "./tally.ts";

/** Types of the conditions of a NodeFootprint. */
export const footprintConditions = {
  /** The footprint is in force as it is written. */
  ready: "Ready",
  /** Nothing keeps the agent from the nodes that need it, nor brings it to others. */
  agentPlaced: "AgentPlaced",
  /** Deletions of owners wait for their pods; only where it holds owners. */
  ownersHeld: "OwnersHeld",
  /** Marks stand that nobody needs and that somebody else has set; only where these are reported. */
  foreignMarks: "ForeignMarks",
} as const;

export type FullFootprintStatus = NodeFootprintStatus & { readonly conditions?: readonly Condition[] };

/** What became of one version of a document. */
export interface FootprintJudgement {
  readonly ready: boolean;
  readonly reason: Reason;
  readonly message: string;
}

/** What is known of a footprint in force. What is `undefined` cannot be told yet: what was said before stays. */
export interface FootprintProgress {
  readonly footprint: Footprint;
  /** `undefined` until every node has been looked at. */
  readonly counts: FootprintCounts | undefined;
  readonly agent: AgentVerdict | undefined;
  /** Nodes that need the agent and have a ready pod of it. */
  readonly agentReady: number | undefined;
  /** The longest first. */
  readonly held: readonly HeldEntry[];
  /** The resource of its owners is not there, or may not be read. */
  readonly isHoldAbsent?: boolean;
}

export interface FootprintStatusInput {
  readonly object: NodeFootprint;
  /** `undefined` while this version has not been looked at. */
  readonly judgement: FootprintJudgement | undefined;
  /** `undefined` while it is not in force. */
  readonly progress: FootprintProgress | undefined;
  readonly now: Instant;
}

export function decideFootprintStatus(input: FootprintStatusInput): StatusDecision<FullFootprintStatus> {
  const { object, judgement, progress, now } = input;
  if (judgement === undefined) return { status: undefined, news: [] };
  const { status: current = {}, metadata: { generation } = {} } = object;
  const version = generation === undefined ? {} : { observedGeneration: generation };
  const { ready, reason, message } = judgement;
  const desired = [
    toCondition(footprintConditions.ready, ready, { reason, message }),
    ...(progress === undefined ? [] : conditionsOf(progress)),
  ].map((it) => Object.assign(it, version));
  const present = withoutConditions(current.conditions, stale(progress));
  const next: FullFootprintStatus = {
    ...current,
    ...version,
    ...(progress !== undefined && countsOf(progress, current)),
    conditions: mergeConditions(present, desired, now),
  };
  const news = desired.filter((condition) => isNews(condition, current.conditions));
  return { status: isSameData(current, next) ? undefined : next, news };
}

function toCondition(
  type: string,
  holds: boolean,
  { reason, message }: Pick<FootprintJudgement, "reason" | "message">,
): DesiredCondition {
  return { type, status: holds ? "True" : "False", reason, message };
}

/** What there is nothing to say about any more. */
function stale(progress: FootprintProgress | undefined): readonly string[] {
  const { agentPlaced, ownersHeld, foreignMarks } = footprintConditions;
  if (progress === undefined) return [agentPlaced, ownersHeld, foreignMarks];
  const { footprint } = progress;
  return [
    ...(isAgentChecked(footprint) ? [] : [agentPlaced]),
    ...(footprint.hold === undefined ? [ownersHeld] : []),
    ...(footprint.foreign === "Report" ? [] : [foreignMarks]),
  ];
}

function countsOf(progress: FootprintProgress, current: FullFootprintStatus): NodeFootprintStatus {
  const { footprint, counts, agent, agentReady, held } = progress;
  const holds = held.slice(0, MAX_HOLDS).map(({ name, uid, since, nodes, pods }) => {
    return { name, uid, since, nodes, pods };
  });
  return {
    nodes: {
      ...current.nodes,
      ...(counts && { labelled: counts.labelled, pending: counts.pending }),
      ...(agentReady !== undefined && { agentReady }),
      ...(agent && { agentUnschedulable: agent.unserved.length }),
      // A merge patch keeps what it does not name.
      ...(!isAgentChecked(footprint) && current.nodes?.agentReady !== undefined && { agentReady: 0 }),
      ...(!isAgentChecked(footprint) &&
        current.nodes?.agentUnschedulable !== undefined && { agentUnschedulable: 0 }),
    },
    ...(counts && { claims: counts.claims }),
    holds,
  };
}

function conditionsOf(progress: FootprintProgress): readonly DesiredCondition[] {
  const { footprint, counts, agent } = progress;
  const conditions: DesiredCondition[] = [];
  if (agent !== undefined && isAgentChecked(footprint)) conditions.push(agentCondition(agent, progress));
  if (footprint.hold !== undefined) conditions.push(heldCondition(progress));
  if (counts !== undefined && footprint.foreign === "Report") conditions.push(foreignCondition(counts));
  return conditions;
}

/** What keeps it from a node comes before what is wrong with it in general. */
function agentCondition(
  { unserved, problems }: AgentVerdict,
  { agentReady, counts }: FootprintProgress,
): DesiredCondition {
  const { agentPlaced: type } = footprintConditions;
  const [first, ...others] = unserved;
  if (first !== undefined) {
    const more = others.length > 0 ? `; and ${others.length} more nodes, the next ${others[0]?.node}` : "";
    return toCondition(type, false, { reason: first.reason, message: `${first.message}${more}` });
  }
  const problem = problems.find(({ reason }) => reason !== reasons.AgentPriority);
  if (problem !== undefined) return toCondition(type, false, problem);
  const [advice] = problems;
  if (advice !== undefined) return toCondition(type, true, advice);
  const of =
    counts === undefined || agentReady === undefined ? "" : `: ready on ${agentReady} of ${counts.needed}`;
  const message = `nothing keeps the agent from the nodes that need it${of}`;
  return toCondition(type, true, { reason: reasons.AgentPlaced, message });
}

function heldCondition({ held, footprint, isHoldAbsent = false }: FootprintProgress): DesiredCondition {
  const { ownersHeld: type } = footprintConditions;
  const [first, ...others] = held;
  if (first === undefined) {
    const owners = footprint.hold === undefined ? "owners" : resourceName(footprint.hold.resource);
    const message = isHoldAbsent
      ? `${owners} are not there, or may not be read: none is held`
      : "no deletion of an owner waits";
    return toCondition(type, false, { reason: reasons.NoOwnerHeld, message });
  }
  const more = others.length > 0 ? `; and ${others.length} more owners, the next ${others[0]?.name}` : "";
  const message = `the deletion of ${first.name} waits for ${first.message}${more}`;
  return toCondition(type, true, { reason: reasons.OwnerHeld, message });
}

function foreignCondition({ foreign }: FootprintCounts): DesiredCondition {
  const { foreignMarks: type } = footprintConditions;
  if (foreign === 0)
    return toCondition(type, false, { reason: reasons.NoForeignMarks, message: "none stands" });
  const message = `they stand on ${foreign === 1 ? "a node" : `${foreign} nodes`}; an Event on each tells which`;
  return toCondition(type, true, { reason: reasons.ForeignFootprintMark, message });
}

/** Is it as it should be? */
export function isGoodCondition({ type, status }: Pick<Condition, "type" | "status">): boolean {
  const isBad = type === footprintConditions.ownersHeld || type === footprintConditions.foreignMarks;
  return status === (isBad ? "False" : "True");
}

/** Something is wrong, or right again. Of owners that wait those who are stuck are told of, on themselves. */
function isNews(condition: DesiredCondition, before: readonly Condition[] | undefined): boolean {
  const { type, status, reason } = condition;
  if (type === footprintConditions.ownersHeld) return false;
  const present = before?.find((it) => it.type === type);
  if (present?.status === status && present.reason === reason) return false;
  return !isGoodCondition(condition) || (present !== undefined && !isGoodCondition(present));
}
