/** Decides the status of a `NodeFootprint`, as plain data. */
import type { DocumentResult, StatusParts } from "@berth/host";
import { isAgentChecked } from "./agent/check.ts";
import {
  conditionsOf,
  type FootprintProgress,
  footprintConditions,
  hasUnknown,
  isNews,
  toCondition,
  unknownNodes,
} from "./conditions.ts";
import { MAX_HOLDS, type NodeFootprint, type NodeFootprintStatus } from "./resource.ts";

export interface FootprintStatusInput {
  readonly object: NodeFootprint;
  readonly result: DocumentResult;
  /** `undefined` while it is not in force. */
  readonly progress: FootprintProgress | undefined;
}

export function describeFootprint({
  object,
  result,
  progress,
}: FootprintStatusInput): StatusParts<NodeFootprintStatus> {
  const { nodes: _nodes, claims: _claims, holds: _holds, ...others } = object.status ?? {};
  const { desired, stale } = conditionsOf(progress);
  const { ready, reason } = result;
  const message = readyMessage(result, progress);
  return {
    conditions: [toCondition(footprintConditions.ready, ready, { reason, message }), ...desired],
    ended: stale,
    // A footprint that is not in force has no counts.
    rest: { ...others, ...(progress !== undefined && countsOf(progress, object.status ?? {})) },
    isNews,
  };
}

/** A faulty footprint may stay in force as it was. Without an agent check, `Ready` reports the unknown nodes. */
function readyMessage({ ready, message }: DocumentResult, progress: FootprintProgress | undefined): string {
  if (progress === undefined) return message;
  if (!ready) return `${message}; it stays in force as it was before`;
  const unknown = isAgentChecked(progress.footprint) ? undefined : unknownNodes(progress);
  return unknown === undefined ? message : `${message}; ${unknown}`;
}

/**
 * Omits `pending` while a node is unknown. Users would read 0 as "every node that needs the agent has the label", and
 * would then remove the agent from all other nodes.
 */
function countsOf(
  { footprint, counts, agent, agentReady, held }: FootprintProgress,
  { nodes: before = {}, claims }: NodeFootprintStatus,
): NodeFootprintStatus {
  const { pending, agentReady: ready, agentUnschedulable: unschedulable, ...others } = before;
  return {
    nodes: given({
      ...others,
      ...(counts && { labelled: counts.labelled, unknown: counts.unknown }),
      pending: hasUnknown(counts) ? undefined : (counts?.pending ?? pending),
      ...(isAgentChecked(footprint) && {
        agentReady: agentReady ?? ready,
        agentUnschedulable: agent?.unserved.length ?? unschedulable,
      }),
    }),
    ...given({ claims: counts?.claims ?? claims }),
    holds: held.slice(0, MAX_HOLDS).map(({ name, uid, since, nodes, pods }) => {
      return { name, uid, since, nodes, pods };
    }),
  };
}

/** Drops fields that are `undefined`. */
function given<T extends object>(values: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    readonly [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
